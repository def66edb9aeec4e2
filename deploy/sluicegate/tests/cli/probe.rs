//! `probe`: what it prints, saves and how it ends.

use serde_json::{Value, json};
use sluicegate_proto::{
    admin::v1::{
        ProbeEvent, ProbeFinding, ProbeSubject, probe_event::Event, probe_finding::Verdict,
    },
    resource::v1::{Profile, resource::Spec},
};
use tonic::Status;

use crate::{fake::Fake, program::Program};

const FILE: &str = r#"
providers:
  - { name: p, dialect: openai-chat, base_url: http://u, keyless: true, headers: { x-team: a } }
"#;

async fn start(events: Vec<Result<Event, Status>>) -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    let program = Program::at(address);
    program.write("f.yaml", FILE);
    program.ok(&["apply", "-f", "f.yaml"]).await;
    fake.state().probe = events
        .into_iter()
        .map(|event| event.map(|event| ProbeEvent { event: Some(event) }))
        .collect();
    (fake, program)
}

fn subject() -> Event {
    Event::Subject(ProbeSubject { credential: String::new(), model: "m".into() })
}

fn finding(check: &str, verdict: Verdict, seen: &str, advice: &str) -> Event {
    Event::Finding(ProbeFinding {
        check: check.into(),
        seen: seen.into(),
        verdict: verdict.into(),
        advice: advice.into(),
    })
}

fn profile() -> Profile {
    Profile { ask_usage: Some(false), fill_usage: true, stream_end: "done".into() }
}

fn events() -> Vec<Result<Event, Status>> {
    vec![
        Ok(subject()),
        Ok(finding("reachable", Verdict::Good, "HTTP/1.1\u{1b}[31m", "")),
        Ok(finding("stream_end", Verdict::Bad, "[DONE]", "the word is taken")),
        Ok(Event::Profile(profile())),
    ]
}

fn saved(fake: &Fake) -> Option<Profile> {
    let state = fake.state();
    let (resource, _) = state.resources.values().next().unwrap();
    match &resource.spec {
        Some(Spec::Provider(spec)) => {
            assert_eq!(spec.headers["x-team"], "a", "the rest stays");
            spec.profile.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a15_findings_profile_and_advice_are_printed() {
    let (fake, program) = start(events()).await;
    let args = ["probe", "p", "--model", "x", "--credential", "k", "--no-oversized"];
    let out = program.ok(&args).await;
    let expected = "provider/p, model m, no key\n\
         VERDICT  CHECK                SEEN\n\
         good     reachable            HTTP/1.1\u{fffd}[31m\n\
         bad      stream_end           [DONE]\n\
         \n\
         profile:\n  fill_usage: true\n  stream_end: done\n  ask_usage: false\n\
         \n\
         Worth knowing:\n  stream_end: the word is taken\n";
    assert_eq!(out, expected);
    let asked = fake.state().probes_asked.remove(0);
    assert_eq!((&*asked.provider, &*asked.model, &*asked.credential), ("p", "x", "k"));
    assert!(asked.spare_oversized);
    assert_eq!(saved(&fake), None, "nothing is saved unasked");

    let out = program.ok(&["probe", "p", "-q"]).await;
    assert!(out.starts_with("good ") && !out.contains("Worth"), "{out}");
}

#[tokio::test]
async fn a15_saving_says_what_changed() {
    let (fake, program) = start(events()).await;
    let out = program.ok(&["probe", "p", "--save"]).await;
    let said = "Saved at revision 2: ask_usage unset -> false, fill_usage false -> true, \
                stream_end finish -> done.\n";
    assert!(out.ends_with(said), "{out}");
    assert_eq!(saved(&fake), Some(profile()));
    let request = fake.state().applied.last().cloned().unwrap();
    assert_eq!(request.changes[0].expect_version, Some(1));
    assert_eq!(request.comment, "probe of p");

    let out = program.ok(&["probe", "p", "--save"]).await;
    assert!(out.ends_with("The provider says so already; revision stays 2.\n"), "{out}");

    // One that behaves needs none.
    let good = Profile { stream_end: "finish".into(), ..Profile::default() };
    fake.state().probe = vec![
        Ok(ProbeEvent { event: Some(subject()) }),
        Ok(ProbeEvent { event: Some(Event::Profile(good)) }),
    ];
    let out = program.ok(&["probe", "p", "--save", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["saved"]["changed"], true);
    assert_eq!(value["saved"]["before"]["stream_end"], "done");
    assert_eq!(value["saved"]["after"], Value::Null);
    assert_eq!(saved(&fake), None);
}

#[tokio::test]
async fn a15_a_provider_that_changed_meanwhile_is_left_alone() {
    let (fake, program) = start(events()).await;
    fake.state().moves = true;
    program.run(&["probe", "p", "--save"]).await.fails(1, &["provider/p", "expected version 1"]);
    assert_eq!(saved(&fake), None);
}

#[tokio::test]
async fn a15_no_profile_is_exit_code_1() {
    let lost = vec![Ok(subject()), Ok(finding("reachable", Verdict::Bad, "refused", "look"))];
    let (fake, program) = start(lost).await;
    let ran = program.run(&["probe", "p", "--save", "-o", "json"]).await;
    ran.fails(1, &["provider 'p' could not be reached"]);
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["profile"], Value::Null);
    let told =
        json!({ "check": "reachable", "verdict": "bad", "seen": "refused", "advice": "look" });
    assert_eq!(value["findings"], json!([told]));
    assert_eq!(saved(&fake), None);

    let silent = vec![Ok(subject()), Ok(finding("reachable", Verdict::Good, "HTTP/1.1", ""))];
    let (_fake, program) = start(silent).await;
    program.run(&["probe", "p"]).await.fails(1, &["provider 'p' answered nothing"]);
}

#[tokio::test]
async fn a15_what_goes_wrong_is_said() {
    let (fake, program) =
        start(vec![Err(Status::resource_exhausted("another probe is running"))]).await;
    program.run(&["probe", "p"]).await.fails(4, &["another probe is running"]);
    fake.state().probe = vec![Err(Status::failed_precondition("this build does not speak 'x'"))];
    program.run(&["probe", "p"]).await.fails(1, &["does not speak 'x'"]);
    program.run(&["probe", "q"]).await.fails(1, &["provider/q"]);
    program.run(&["probe", "p", "--wait", "1.0"]).await.fails(2, &["--save"]);
}
