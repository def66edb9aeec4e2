//! Changes: waiting until data planes run them, and telling what they did.

mod difference;
mod put;

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use sluicegate_proto::admin::v1::{ApplyReply, Difference, WaitFor, difference::Action};

pub(crate) use self::{
    difference::{action_name, reference, to_json, unified},
    put::{Put, name_of},
};
use crate::{
    failure::Failure,
    output::{Format, Output, Table, print},
};

/// Share of a data plane that rounding may hide.
const ROUNDING: f64 = 1e-4;

/// Waiting for data planes after a change.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitArgs {
    /// Answer when this share of the data planes that are connected to the replica that took the
    /// change runs it: 1.0 is all of them; with none connected, exit code 1
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    pub(crate) wait: Option<f32>,
    /// Longest such wait in milliseconds; being late is exit code 1, the change stands
    #[arg(long, value_name = "MS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) wait_timeout_ms: u32,
}

impl WaitArgs {
    /// The wire form.
    pub(crate) fn to_proto(self) -> Option<WaitFor> {
        self.wait.map(|fraction| WaitFor { fraction, timeout_ms: self.wait_timeout_ms })
    }

    /// Time that the answer may take beyond the usual.
    pub(crate) fn extra(self) -> Duration {
        match self.wait {
            Some(_) => Duration::from_millis(u64::from(self.wait_timeout_ms)),
            None => Duration::ZERO,
        }
    }

    /// Did what was waited for happen?
    ///
    /// # Errors
    /// When fewer data planes than wished run the change.
    pub(crate) fn check(self, reply: &ApplyReply) -> Result<(), Failure> {
        if self.is_met(reply) {
            return Ok(());
        }
        if reply.connected == 0 {
            return Err(Failure::not_so(
                "no data plane is connected to this replica; the change stands",
            ));
        }
        Err(Failure::not_so(format!(
            "after {} ms {} of {} data planes of this replica run revision {}; behind: {} (the \
             change stands; see 'sluicegate nodes')",
            self.wait_timeout_ms,
            reply.acknowledged,
            reply.connected,
            revision(reply),
            reply.behind.join(", ")
        )))
    }

    /// Did enough data planes take the change over? Where none is, none did.
    fn is_met(self, reply: &ApplyReply) -> bool {
        self.wait.is_none_or(|fraction| {
            if reply.connected == 0 {
                return fraction == 0.0;
            }
            let wanted = f64::from(fraction) * f64::from(reply.connected);
            f64::from(reply.acknowledged) + ROUNDING >= wanted
        })
    }
}

fn fraction(text: &str) -> Result<f32, String> {
    let fraction: f32 = text.parse().map_err(|_| "not a number; use 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&fraction) { Ok(fraction) } else { Err("must be from 0 to 1".into()) }
}

/// How a change is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling {
    pub(crate) output: Output,
    pub(crate) dry_run: bool,
    pub(crate) wait: WaitArgs,
    /// How many resources the change named, where it named them all.
    pub(crate) named: Option<usize>,
}

impl Telling {
    /// Prints what a change did, or would.
    ///
    /// # Errors
    /// When fewer data planes than wished run it by now.
    pub(crate) fn tell(self, reply: &ApplyReply) -> Result<(), Failure> {
        match self.output.format {
            Format::Table => print(&self.text(reply))?,
            Format::Json | Format::Yaml => self.output.value(&self.value(reply))?,
        }
        if self.dry_run { Ok(()) } else { self.wait.check(reply) }
    }

    fn text(self, reply: &ApplyReply) -> String {
        let mut table = Table::new(&["action", "kind", "name"], self.output.quiet);
        for difference in &reply.differences {
            let (kind, name) = reference(difference);
            table.row([action_name(difference.action()).into(), kind, name]);
        }
        let mut text = if table.is_empty() { String::new() } else { table.render() };
        if !self.output.quiet {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&self.summary(reply));
        }
        text
    }

    fn summary(self, reply: &ApplyReply) -> String {
        let counts = Counts::of(&reply.differences);
        let verbs = if self.dry_run {
            ["to create", "to update", "to delete"]
        } else {
            ["created", "updated", "deleted"]
        };
        let mut text = format!(
            "{} {}, {} {}, {} {}",
            counts.created, verbs[0], counts.updated, verbs[1], counts.deleted, verbs[2]
        );
        if let Some(unchanged) = self.unchanged(counts) {
            text.push_str(&format!(", {unchanged} unchanged"));
        }
        text.push_str(&match (self.dry_run, reply.differences.is_empty()) {
            (true, _) | (_, true) => format!("; revision stays {}\n", revision(reply)),
            (false, false) => format!("; revision {}\n", revision(reply)),
        });
        if reply.repeated_call {
            text.push_str("an earlier attempt of this call had done it already\n");
        }
        if self.wait.wait.is_some() && !self.dry_run {
            text.push_str(&format!(
                "{} of {} data planes of this replica run it\n",
                reply.acknowledged, reply.connected
            ));
        }
        text
    }

    fn value(self, reply: &ApplyReply) -> Value {
        let counts = Counts::of(&reply.differences);
        let mut value = json!({
            "revision": revision(reply),
            "dry_run": self.dry_run,
            "created": counts.created,
            "updated": counts.updated,
            "deleted": counts.deleted,
            "differences": reply.differences.iter().map(to_json).collect::<Vec<_>>(),
            "repeated_call": reply.repeated_call,
        });
        if let Some(unchanged) = self.unchanged(counts) {
            value["unchanged"] = unchanged.into();
        }
        if self.wait.wait.is_some() && !self.dry_run {
            value["acknowledged"] = reply.acknowledged.into();
            value["connected"] = reply.connected.into();
            value["behind"] = reply.behind.clone().into();
        }
        value
    }

    fn unchanged(self, counts: Counts) -> Option<usize> {
        self.named.map(|named| named.saturating_sub(counts.created + counts.updated))
    }
}

/// How many resources a change touched in which way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) created: usize,
    pub(crate) updated: usize,
    pub(crate) deleted: usize,
}

impl Counts {
    pub(crate) fn of(differences: &[Difference]) -> Self {
        let count = |wanted: Action| {
            differences.iter().filter(|difference| difference.action() == wanted).count()
        };
        Self {
            created: count(Action::Create),
            updated: count(Action::Update),
            deleted: count(Action::Delete),
        }
    }
}

/// The revision at which a change stands.
pub(crate) fn revision(reply: &ApplyReply) -> u64 {
    reply.at.as_ref().map_or(0, |at| at.revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_met_by_the_share_that_was_asked_for() {
        check(None, 0, 3, true);
        check(Some(1.0), 3, 3, true);
        check(Some(1.0), 2, 3, false);
        check(Some(0.1), 1, 10, true);
        check(Some(0.67), 2, 3, false);
        check(Some(0.66), 2, 3, true);
        check(Some(1.0), 0, 0, false);
        check(Some(0.0), 0, 0, true);

        #[track_caller]
        fn check(wait: Option<f32>, acknowledged: u32, connected: u32, expected: bool) {
            let reply = ApplyReply { acknowledged, connected, ..ApplyReply::default() };
            assert_eq!(WaitArgs { wait, wait_timeout_ms: 1 }.is_met(&reply), expected);
        }
    }

    #[test]
    fn fractions() {
        assert_eq!(fraction("0.5"), Ok(0.5));
        for bad in ["", "x", "-0.1", "1.1", "NaN"] {
            assert!(fraction(bad).is_err(), "{bad}");
        }
    }
}
