//! Overload in virtual time: a model of a server behind the real admission. Figures are printed
//! (`--nocapture`).

mod server;
mod world;

use std::num::NonZeroU64;

use sluicegate_flow::capacity;
use sluicegate_flow::queue::Bounds;

use server::Server;
use world::{Source, World};

fn fixed(requests: u64, tokens: u64) -> capacity::Settings {
    capacity::Settings {
        max_requests: NonZeroU64::new(requests),
        max_tokens: NonZeroU64::new(tokens),
        small_percent: 25,
        adaptive: None,
    }
}

fn unlimited() -> capacity::Settings {
    fixed(0, 0)
}

fn bounds() -> Bounds {
    Bounds { length: 1_000, tenant_percent: 100, wait_ms: 2_000 }
}

/// Forty small requests a second, of 2000 to 6000 tokens and 0.4 to 0.8 s.
fn small() -> Source {
    Source {
        per_second: 40.0,
        tokens: 2_000..6_000,
        base_ms: 200,
        tokens_per_ms: 10,
        tenant: "small",
    }
}

/// One of a million tokens and 8 s each second.
fn large() -> Source {
    Source {
        per_second: 1.0,
        tokens: 1_000_000..1_000_001,
        base_ms: 8_000,
        tokens_per_ms: 1_000_000_000,
        tenant: "large",
    }
}

#[test]
fn b9_a_million_tokens_leave_the_p99_of_small_ones_within_one_and_a_half() {
    let server = || Server::slows_beyond(1_000_000);
    let run = |settings, sources: &[Source]| {
        let mut world = World::new(server(), settings, bounds(), 7);
        world.run(120_000, sources);
        world
    };
    let alone = run(fixed(0, 1_000_000), &[small()]).report("small");
    let world = run(fixed(0, 1_000_000), &[small(), large()]);
    let (beside, million) = (world.report("small"), world.report("large"));
    let ungated = run(unlimited(), &[small(), large()]).report("small");
    println!("small ones alone:              {alone}");
    println!("beside a million each second:  {beside}");
    println!("the million-token ones:        {million}");
    println!("small ones without a gate:     {ungated}");
    let ratio = beside.p99_ms as f64 / alone.p99_ms as f64;
    println!(
        "p99 of small ones x {ratio:.2}; without a gate x {:.1}",
        ungated.p99_ms as f64 / alone.p99_ms as f64
    );
    assert!(ratio <= 1.5, "{ratio}");
    assert_eq!((beside.refused, beside.failed), (0, 0));
    assert!(million.succeeded >= 12, "one after the other they run: {million}");
    assert!(ungated.p99_ms > 4 * alone.p99_ms, "the gate made the difference");
}

/// Requests of a thousand tokens and 2.8 s on average.
fn three_times_too_much(tenant: &'static str, per_second: f64) -> Source {
    Source { per_second, tokens: 400..1_601, base_ms: 1_800, tokens_per_ms: 1, tenant }
}

#[test]
fn b9_a_third_of_the_load_succeeds_evenly_and_the_rest_is_refused_cleanly() {
    let server = Server::slows_beyond(90_000).refuses_beyond(90);
    let mut world = World::new(server, fixed(84, 0), bounds(), 11);
    world.run(60_000, &[three_times_too_much("t", 100.0)]);
    let report = world.report("t");
    let goodput = world.finished_between(5_000, 60_000) as f64 / (30.0 * 55.0);
    println!("100/s onto 30/s: {report}");
    println!("goodput {:.1} %, longest line {}", goodput * 100.0, world.longest_line);
    assert_eq!(report.failed, 0);
    assert!(goodput >= 0.95, "{goodput}");
    assert!(report.p99_ms <= 3_400 + 2_000 && report.p50_ms >= 2_700, "{report}");
    assert!(world.longest_line <= 250, "what comes in two seconds");
    assert!(report.longest_refusal_ms <= 2_000 && report.refused > 3_500, "{report}");
}

#[test]
fn b9_the_limit_is_found_where_nobody_sets_it() {
    let server = Server::slows_beyond(90_000).refuses_beyond(84);
    let settings = capacity::Settings::default();
    let mut world = World::new(server, settings, bounds(), 13);
    world.run(120_000, &[three_times_too_much("t", 100.0)]);
    let report = world.report("t");
    let goodput = world.finished_between(20_000, 120_000) as f64 / (30.0 * 100.0);
    let failed = world.failed_between(20_000, 120_000) as f64;
    let share = failed / (failed + world.finished_between(20_000, 120_000) as f64);
    println!("100/s onto 30/s, no limit set: {report}");
    println!(
        "after 20 s: goodput {:.1} %, {:.2} % of what was sent refused upstream",
        goodput * 100.0,
        share * 100.0
    );
    assert!(goodput >= 0.8, "{goodput}");
    assert!(share <= 0.02, "{share}");
}

#[test]
fn b3_a_greedy_tenant_takes_nothing_from_a_modest_one() {
    let mut world = World::new(Server::slows_beyond(90_000), fixed(84, 0), bounds(), 17);
    let sources = [three_times_too_much("greedy", 90.0), three_times_too_much("modest", 10.0)];
    world.run(60_000, &sources);
    let (greedy, modest) = (world.report("greedy"), world.report("modest"));
    println!("greedy: {greedy}\nmodest: {modest}");
    let share = modest.succeeded as f64 / (modest.succeeded + modest.refused) as f64;
    println!("{:.1} % of the modest one's succeed", share * 100.0);
    assert!(share >= 0.97, "{share}: ten a second are less than half of thirty");
}
