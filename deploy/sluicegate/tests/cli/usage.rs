//! `usage`: what was used.

use serde_json::Value;
use sluicegate_proto::admin::v1::UsageTotal;

use crate::{fake::Fake, program::Program};

async fn start() -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    fake.state().totals = vec![
        UsageTotal {
            period: "2026-11-30".into(),
            tenant: "acme".into(),
            model: "gpt, \"large\"".into(),
            requests: 3,
            estimated: 1,
            input_tokens: 1_200,
            output_tokens: 34,
            cached_tokens: 1_000,
            reasoning_tokens: 4,
            micro_units: 1_234_500,
            // More than a double can count in nano-dollars.
            cost_nano: 9_007_199_254_740_993,
            ..UsageTotal::default()
        },
        UsageTotal { period: "2026-11-30".into(), requests: 1, ..UsageTotal::default() },
    ];
    (fake, Program::at(address))
}

#[tokio::test]
async fn d4_usage_in_every_form() {
    let (fake, program) = start().await;
    // In whatever order they are named.
    let by = ["usage", "--by", "model,day,month", "--by", "tenant"];
    assert_eq!(
        program.ok(&by).await,
        "DAY         TENANT  MODEL         REQUESTS  ESTIMATED  INPUT  OUTPUT  CACHED  REASONING  UNITS   COST_DOLLARS\n\
         2026-11-30  acme    gpt, \"large\"  3         1          1200   34      1000    4          1.2345  9007199.254740993\n\
         2026-11-30  -       -             1         0          0      0       0       0          0.00    0.00\n"
    );
    let csv = program.ok(&[&by[..], &["-o", "csv"]].concat()).await;
    assert_eq!(
        csv,
        "day,tenant,model,requests,estimated,input,output,cached,reasoning,units,cost_dollars\n\
         2026-11-30,acme,\"gpt, \"\"large\"\"\",3,1,1200,34,1000,4,1.2345,9007199.254740993\n\
         2026-11-30,,,1,0,0,0,0,0,0.00,0.00\n"
    );
    let json = program.ok(&[&by[..], &["-o", "json"]].concat()).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["totals"][0]["cost_dollars"], "9007199.254740993");
    assert_eq!(
        (&json["totals"][0]["day"], &json["totals"][0]["key"]),
        (&"2026-11-30".into(), &Value::Null)
    );
    let yaml = program.ok(&["usage", "-o", "yaml"]).await;
    assert!(yaml.starts_with("totals:\n  - requests: 3\n    estimated: 1\n"), "{yaml}");
    assert_eq!(program.ok(&["usage", "-q"]).await.lines().count(), 2);
    let asked = &fake.state().usage_asked;
    assert_eq!(asked[0].group_by, ["day", "tenant", "model"]);
    assert!(asked[3].group_by.is_empty());
}

#[tokio::test]
async fn the_range_and_the_filters_are_passed_on() {
    let (fake, program) = start().await;
    program
        .ok(&["usage", "--from", "2026-11-01", "--to", "2026-11-30", "--tenant", "t", "--key", "k"])
        .await;
    program.ok(&["usage", "--model", "m", "--provider", "p", "--credential", "c"]).await;
    program.ok(&["usage", "--last", "7d"]).await;
    {
        let state = fake.state();
        let asked = &state.usage_asked;
        assert_eq!((&*asked[0].from, &*asked[0].to), ("2026-11-01", "2026-11-30"));
        assert_eq!((&*asked[0].tenant, &*asked[0].key), ("t", "k"));
        assert_eq!((&*asked[1].model, &*asked[1].provider, &*asked[1].credential), ("m", "p", "c"));
        assert_eq!((&*asked[1].from, &*asked[1].to), ("", ""));
        assert_eq!((asked[2].from.len(), &*asked[2].to), (10, ""));
    }
    program.run(&["usage", "--from", "monday"]).await.fails(2, &["write a day as 2026-11-30"]);
    program.run(&["usage", "--last", "1d", "--from", "2026-11-01"]).await.fails(2, &["--last"]);
    program.run(&["usage", "--by", "colour"]).await.fails(2, &["colour"]);
    fake.state().totals.clear();
    let none = program.run(&["usage"]).await;
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (0, "", "nothing was used\n"));
}
