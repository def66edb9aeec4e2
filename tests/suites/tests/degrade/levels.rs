//! Levels by what the upstream says of its memory.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{LIMIT, MEMORY, World, chat, extension};

fn memory(enter: f64, leave: f64, level: Value) -> Value {
    let mut level = level;
    level["enter_when"] = format!("{MEMORY} > {enter}").into();
    level["leave_when"] = format!("{MEMORY} < {leave}").into();
    level
}

fn ladder() -> Value {
    json!([{
        "name": "memory",
        "sources": [{ "provider": "local", "interval_ms": 500 }],
        "levels": [
            memory(0.75, 0.6, json!({ "level": 1, "strip_tools": ["shell*"] })),
            memory(0.85, 0.7, json!({ "level": 2 })),
            memory(0.95, 0.8, json!({ "level": 3, "reply": "Back in a while." })),
        ],
    }])
}

const TOOLS: [&str; 3] = ["shell_exec", "calc", "search"];

#[tokio::test(flavor = "multi_thread")]
async fn b4_memory_takes_tools_away_and_gives_them_back() {
    let world = World::start(ladder(), json!({}), json!({})).await;
    for (reading, level) in [
        (0.50, 0),
        (0.80, 1),
        (0.90, 2),
        (0.97, 3),
        // Between leave and enter every level keeps what it is.
        (0.90, 3),
        (0.75, 2),
        (0.65, 1),
        (0.62, 1),
        (0.50, 0),
    ] {
        world.shown.set(reading);
        world.note(&format!("the server says {reading}"));
        world.reaches("memory", level, LIMIT).await;
        // Time for a wrong level to come.
        world.keeps("memory", level, Duration::from_millis(1_200)).await;
        for stream in [false, true] {
            holds(&world, level, stream).await;
        }
    }
}

/// A request at this level.
async fn holds(world: &World, level: u32, stream: bool) {
    let before = world.requests_upstream();
    let reply = world.ask("team", chat("m1", "hi", &TOOLS, stream)).await;
    assert_eq!(reply.status, Some(200), "{}", reply.text());
    assert_eq!((reply.finish().as_deref(), reply.dones()), (Some("stop"), usize::from(stream)));
    let header = reply.header("x-sluicegate-degraded");
    let told = extension(&reply);
    let record = world.record(&reply).await;
    println!("           level {level}, stream {stream}: {header:?} {told}");
    let degraded = &told["degraded"];
    if level < 3 {
        assert_eq!(reply.content().as_deref(), Some("well"));
        assert_eq!(reply.usage(), (!stream).then_some((7, 2)));
    }
    match level {
        0 => {
            assert_eq!((world.tools_upstream(), header), (TOOLS.map(str::to_owned).to_vec(), None));
            assert_eq!((&told, &record["degraded_level"]), (&Value::Null, &Value::Null));
        }
        1 => {
            assert_eq!(world.tools_upstream(), ["calc", "search"]);
            assert_eq!(header, Some("level=1;by=memory;removed=shell_exec"));
            assert_eq!(degraded["removed"], json!(["shell_exec"]));
            assert_eq!(record["stripped_tools"], json!(["shell_exec"]));
        }
        2 => {
            assert_eq!(world.tools_upstream(), Vec::<String>::new());
            assert_eq!(header, Some("level=2;by=memory;removed=shell_exec,calc,search"));
            assert_eq!(degraded["removed"], json!(TOOLS));
        }
        _ => {
            assert_eq!(world.requests_upstream(), before, "nothing was sent");
            assert_eq!(reply.content().as_deref(), Some("Back in a while."));
            assert_eq!(header, Some("level=3;by=memory"));
            assert_eq!(reply.header("x-sluicegate-status"), Some("maintenance"));
            assert_eq!(told["status"], json!("maintenance"));
            assert_eq!(record["error_code"], json!("maintenance"));
            assert_eq!((&record["outcome"], &record["status"]), (&json!("rejected"), &json!(200)));
            assert_eq!(record["usage"], Value::Null);
        }
    }
    if level > 0 {
        assert_eq!((&degraded["level"], &degraded["by"]), (&json!(level), &json!(["memory"])));
        assert_eq!(
            (&record["degraded_level"], &record["degraded_by"]),
            (&json!(level), &json!(["memory"]))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_readings_that_flap_do_not_flap_levels() {
    let mut level = memory(0.85, 0.7, json!({ "level": 2 }));
    level["for_ms"] = json!(1_500);
    let memory = json!([{
        "name": "memory",
        "sources": [{ "provider": "local", "interval_ms": 500 }],
        "levels": [level],
    }]);
    let world = World::start(memory, json!({}), json!({})).await;
    let flapping = || (0..200).map(|n| Some(if n % 2 == 0 { 0.95 } else { 0.5 })).collect();
    world.shown.play(flapping());
    world.note("the server says 0.95 and 0.5 in turns");
    world.keeps("memory", 0, Duration::from_secs(6)).await;
    world.shown.set(0.95);
    world.note("the server says 0.95");
    let begun = tokio::time::Instant::now();
    world.reaches("memory", 2, LIMIT).await;
    assert!(begun.elapsed() >= Duration::from_millis(1_000), "it must hold for 1500 ms");
    world.shown.play(flapping());
    world.note("the server says 0.95 and 0.5 in turns");
    world.keeps("memory", 2, Duration::from_secs(6)).await;
    world.shown.set(0.5);
    world.note("the server says 0.5");
    world.reaches("memory", 0, LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_levels_are_for_some_models_and_some_tenants() {
    let one = |name: &str, member: &str, of: &str| {
        json!({
            "name": name, member: [of],
            "sources": [{ "provider": "local", "interval_ms": 500 }],
            "levels": [memory(0.85, 0.7, json!({ "level": 2 }))],
        })
    };
    let degradations = json!([one("of-model", "models", "m1"), one("of-tenant", "tenants", "org")]);
    let world = World::start(degradations, json!({}), json!({})).await;
    world.shown.set(0.9);
    world.reaches("of-model", 2, LIMIT).await;
    world.reaches("of-tenant", 2, LIMIT).await;
    for (tenant, model, by) in [
        ("team", "m1", "of-model,of-tenant"),
        ("team", "m2", "of-tenant"),
        ("other", "m1", "of-model"),
        ("other", "m2", ""),
    ] {
        let reply = world.ask(tenant, chat(model, "hi", &["calc"], false)).await;
        let header = reply.header("x-sluicegate-degraded").unwrap_or_default();
        let expected = match by {
            "" => String::new(),
            by => format!("level=2;by={by};removed=calc"),
        };
        println!("{tenant} {model}: {header}");
        assert_eq!(header, expected);
        let kept = if by.is_empty() { vec!["calc".to_owned()] } else { Vec::new() };
        assert_eq!(world.tools_upstream(), kept);
    }
}
