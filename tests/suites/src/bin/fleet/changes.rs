//! The changes and how long they take.

use std::time::Duration;

use sluicegate_proto::resource::v1::{Provider, Timeouts, resource::Spec};
use sluicegate_suites::admin::{self, Admin};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::LIMIT;
use crate::upstream::Upstream;

/// Pause between two looks at the fleet.
const POLL: Duration = Duration::from_millis(1);

/// What one change took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// From sending Apply until it returned: the change was in etcd then.
    pub(crate) apply: Duration,
    /// From there until the control plane had the acknowledgement of the last data plane.
    ///
    /// Seen by asking FleetStatus again and again, so it is too long by up to one such call and one
    /// [`POLL`], never too short. An acknowledgement is sent after the data plane has swapped its
    /// policy, so the change is in force a little earlier still.
    pub(crate) acknowledged: Duration,
}

/// Makes `n` changes, one each `pause`, or as soon as the one before is acknowledged by `planes`
/// data planes.
pub(crate) async fn measure(
    client: &mut Admin,
    upstream: &Upstream,
    n: usize,
    pause: Duration,
    planes: usize,
) -> anyhow::Result<Vec<Took>> {
    let mut ticks = interval(pause.max(POLL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut all = Vec::new();
    for number in 0..n {
        ticks.tick().await;
        let change = admin::put(change(upstream, number));
        let begun = Instant::now();
        let reply = client.apply(vec![change]).await?;
        let returned = Instant::now();
        anyhow::ensure!(reply.differences.len() == 1, "change {number} changed {reply:?}");
        acknowledged(client, reply.at.unwrap_or_default().revision, planes).await?;
        all.push(Took { apply: returned - begun, acknowledged: returned.elapsed() });
    }
    Ok(all)
}

/// Resources of every kind in turn; the ones that carry the traffic are among them.
fn change(upstream: &Upstream, number: usize) -> Spec {
    match number % 4 {
        0 => admin::model("m1", &format!("owner-{number}")),
        1 => admin::api_key(&format!("key-{number}"), &format!("sk-caller-{number}")),
        2 => admin::tenant(&format!("tenant-{number}")),
        _ => Spec::Provider(Provider {
            name: "p1".into(),
            dialect: "openai-chat".into(),
            base_url: format!("http://{}/cell/p1/v1", upstream.address()),
            timeouts: Some(Timeouts {
                idle_ms: u32::try_from(30_000 + number).ok(),
                ..Timeouts::default()
            }),
            ..Provider::default()
        }),
    }
}

async fn acknowledged(client: &mut Admin, revision: u64, planes: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let fleet = client.fleet().await?;
        let runs = |plane: &&sluicegate_proto::admin::v1::DataPlane| {
            plane.acknowledged.as_ref().is_some_and(|at| at.revision >= revision)
        };
        if fleet.data_planes.iter().filter(runs).count() == planes {
            return Ok(());
        }
        anyhow::ensure!(
            begun.elapsed() < LIMIT,
            "revision {revision} is not everywhere: {fleet:#?}"
        );
        tokio::time::sleep(POLL).await;
    }
}
