//! Seventh stage: what the answer cost, on every way a request can end.
//!
//! The rules. What an upstream refused or never answered costs nothing. What passed before an answer
//! broke off, or before its caller left, costs what passed, prompt included. A caller that leaves
//! before anything came has had its prompt sent all the same, and pays for that. Counts are the
//! upstream's where they can be true, else estimated from what passed, and marked so.

mod memo;

use std::sync::Arc;

use sluicegate_journal::Started;
use sluicegate_model::{TokenRates, Usage, outcome::Blame};
use sluicegate_proto::usage::v1::{Basis, UsageEvent};

pub(crate) use memo::Memo;

use crate::{
    estimate::{Sizes, Stats},
    policy::Model,
    quota::{Actual, Reservation},
    report::Report,
    route::Choice,
    usage::UsageLog,
};

/// No answer has so many tokens: a count beyond it is a mistake.
const ABSURD_TOKENS: u64 = 1 << 40;

/// What settling one request needs, from when it is admitted until it is settled.
#[derive(Debug)]
pub struct Bill {
    log: Arc<UsageLog>,
    request: u64,
    stats: Arc<Stats>,
    measured: u64,
    units: TokenRates,
    prices: TokenRates,
    price_version: u64,
    model: String,
    reservation: Reservation,
    /// The attempt that is under way or was served.
    sent: Option<Started>,
}

impl Bill {
    pub fn new(
        log: &Arc<UsageLog>,
        model: &Model,
        sizes: &Sizes,
        stats: Arc<Stats>,
        reservation: Reservation,
    ) -> Self {
        Self {
            log: log.clone(),
            request: log.next_request(),
            stats,
            measured: sizes.measured(),
            units: model.units,
            prices: model.prices,
            price_version: model.version,
            model: model.name.clone(),
            reservation,
            sent: None,
        }
    }

    /// Number of the request and of its attempt that is under way.
    pub fn running(&self) -> Option<(u64, u32)> {
        self.sent.as_ref().map(|started| (self.request, started.event.attempt))
    }

    /// An attempt is about to be sent, under what it has taken for itself.
    pub fn sent(
        &mut self,
        report: &RecordNames<'_>,
        choice: &Choice,
        attempt: u32,
        own: &Reservation,
    ) {
        let mut memo = Memo { units: self.units, prices: self.prices, dimensions: Vec::new() };
        let (mut leases, mut holds) = (Vec::new(), Vec::new());
        for (totals, hold, dimension) in self.reservation.journalled().chain(own.journalled()) {
            leases.push(totals);
            holds.push(hold);
            memo.dimensions.push(dimension);
        }
        let credential = choice.credential.as_ref().map(|credential| credential.name.clone());
        let event = UsageEvent {
            request_id: report.request_id.to_owned(),
            attempt,
            tenant: report.tenant.unwrap_or_default().to_owned(),
            key: report.key.unwrap_or_default().to_owned(),
            user: report.user.unwrap_or_default().to_owned(),
            app: report.app.unwrap_or_default().to_owned(),
            model: self.model.clone(),
            provider: choice.provider.name.clone(),
            upstream_model: choice.model.clone(),
            credential: credential.unwrap_or_default(),
            input_tokens: self.measured,
            price_version: self.price_version,
            basis: Basis::Estimated.into(),
            ..UsageEvent::default()
        };
        let started = Started { request: self.request, event, holds, memo: memo.write() };
        self.log.started(&started, &leases);
        self.sent = Some(started);
    }

    /// The attempt has cost the caller nothing.
    pub fn attempt_failed(&mut self) {
        if let Some(started) = self.sent.take() {
            self.log.dropped(self.request, started.event.attempt);
        }
    }

    /// What the served attempt has taken for itself settles with the rest.
    pub fn join(&mut self, own: Reservation) {
        self.reservation.join(own);
    }

    /// The tightest limits, for the caller.
    pub fn standings(&self) -> crate::quota::Standings {
        self.reservation.standings
    }

    /// The request came to nothing. It counts as one where its caller is to blame.
    fn close(&mut self, blame: Blame) {
        self.attempt_failed();
        let requests = u64::from(blame == Blame::Caller);
        let _nothing_charged = self.reservation.settle(&Actual { requests, ..Actual::default() });
    }

    fn charge(
        &mut self,
        usage: Usage,
        estimated: bool,
        outcome: &str,
        duration_ms: u64,
    ) -> Charged {
        let actual = Actual {
            requests: 1,
            tokens: usage.input.saturating_add(usage.output),
            micro_units: self.units.total(usage),
            cost_nano: self.prices.total(usage),
        };
        let leases = self.reservation.settle(&actual);
        if let Some(Started { mut event, .. }) = self.sent.take() {
            event.input_tokens = usage.input;
            event.output_tokens = usage.output;
            event.cached_tokens = usage.cached;
            event.reasoning_tokens = usage.reasoning;
            event.micro_units = actual.micro_units;
            event.cost_nano = actual.cost_nano;
            event.basis = if estimated { Basis::Estimated } else { Basis::Reported }.into();
            outcome.clone_into(&mut event.outcome);
            event.duration_ms = duration_ms;
            self.log.used(self.request, &event, &leases);
            if !estimated {
                self.stats.learn(self.measured, usage.input, usage.output);
            }
        }
        Charged { micro_units: actual.micro_units, cost_nano: actual.cost_nano }
    }
}

/// Names of a request's record that a usage event repeats.
#[derive(Debug, Clone, Copy)]
pub struct RecordNames<'a> {
    pub request_id: &'a str,
    pub tenant: Option<&'a str>,
    pub key: Option<&'a str>,
    pub user: Option<&'a str>,
    pub app: Option<&'a str>,
}

/// What a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charged {
    pub micro_units: u64,
    pub cost_nano: u64,
}

/// Settles a request that was answered, in whole or in part. `output_chars` are characters of text
/// that passed.
pub fn settle(report: &mut Report, reported: Option<Usage>, output_chars: u64) {
    let Some(mut bill) = report.bill.take() else { return };
    let (usage, estimated) = match reported.filter(|usage| is_sound(*usage, output_chars)) {
        Some(usage) => (usage, false),
        None => (estimated(bill.measured, output_chars), true),
    };
    let duration_ms = whole_ms(report.elapsed_ms());
    let charged = bill.charge(usage, estimated, report.record.outcome, duration_ms);
    report.usage(usage, estimated, charged);
    report.standings = bill.standings();
}

/// Settles a request that failed before anything reached its caller.
pub fn settle_failed(report: &mut Report, blame: Blame) {
    if let Some(mut bill) = report.bill.take() {
        bill.close(blame);
        report.standings = bill.standings();
    }
}

/// Settles a request whose caller left before anything came.
pub fn settle_abandoned(report: &mut Report) {
    let was_sent = report.bill.as_ref().is_some_and(|bill| bill.running().is_some());
    if was_sent {
        settle(report, None, 0);
    } else {
        report.bill = None;
    }
}

/// About four characters a token.
fn estimated(measured: u64, output_chars: u64) -> Usage {
    Usage { input: measured.max(1), output: output_chars.div_ceil(4), ..Usage::default() }
}

/// Can these counts be true? Upstreams exist that report nothing but zeros, or nonsense.
fn is_sound(usage: Usage, output_chars: u64) -> bool {
    let said_nothing = usage.output == 0 && output_chars > 0;
    let all_zero = usage.input == 0 && usage.output == 0;
    !said_nothing && !all_zero && usage.input < ABSURD_TOKENS && usage.output < ABSURD_TOKENS
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration in milliseconds; the cast saturates"
)]
fn whole_ms(ms: f64) -> u64 {
    ms as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a3_counts_that_cannot_be_true_are_estimated() {
        let usage = |input, output| Usage { input, output, ..Usage::default() };
        assert!(is_sound(usage(7, 2), 8));
        assert!(is_sound(usage(7, 0), 0), "an embedding, or an empty answer");
        assert!(!is_sound(usage(7, 0), 8), "zero with visible text");
        assert!(!is_sound(usage(0, 0), 0));
        assert!(!is_sound(usage(u64::MAX, 2), 8));
        assert_eq!(estimated(0, 9), usage(1, 3));
    }
}
