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

/// Tokens that an upstream may add to a prompt: images, tools, instructions of its own.
const MOST_ADDED_INPUT: u64 = 4_000_000;
/// No answer has more tokens.
const MOST_OUTPUT: u64 = 100_000_000;

/// What settling one request needs, from when it is admitted until it is settled.
#[derive(Debug)]
pub struct Bill {
    log: Arc<UsageLog>,
    request: u64,
    stats: Arc<Stats>,
    measured: u64,
    likely: u64,
    /// Size of the request.
    body_bytes: u64,
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
            likely: sizes.likely(),
            body_bytes: sizes.body_bytes(),
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
        // The model that answers is the one that it costs.
        let serves = &choice.serves;
        (self.units, self.prices, self.price_version) =
            (serves.units, serves.prices, serves.version);
        self.model.clone_from(&serves.name);
        let log = self.log.clone();
        let journalled = self.reservation.is_journalled() || own.is_journalled();
        let _settling = journalled.then(|| log.settling());
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
            input_tokens: self.likely,
            price_version: self.price_version,
            basis: Basis::Estimated.into(),
            ..UsageEvent::default()
        };
        let started = Started { request: self.request, event, holds, memo: memo.write() };
        self.log.started(&started, &leases);
        self.sent = Some(started);
    }

    /// The attempt has cost the caller nothing. Where it went it was a request, whatever came of it:
    /// that is what `own`, which it had taken for itself, is charged.
    pub fn attempt_failed(&mut self, mut own: Reservation) {
        let requests = Actual { requests: 1, ..Actual::default() };
        settle_unused(&self.log, &mut own, &requests);
        self.forget_attempt();
    }

    fn forget_attempt(&mut self) {
        if let Some(started) = self.sent.take() {
            self.log.dropped(self.request, started.event.attempt);
        }
    }

    /// What the served attempt has taken for itself settles with the rest.
    pub fn join(&mut self, own: Reservation) {
        self.reservation.join(own);
    }

    /// What the answer used, as far as the upstream's word and what passed tell, and whether that is
    /// an estimate.
    pub fn believed(&self, reported: Option<Usage>, output_chars: u64) -> (Usage, bool) {
        believed(reported, self.likely, self.body_bytes, output_chars)
    }

    /// The tightest limits, for the caller.
    pub fn standings(&self) -> crate::quota::Standings {
        self.reservation.standings
    }

    /// The request came to nothing. It counts as one where its caller is to blame.
    fn close(&mut self, blame: Blame) {
        self.forget_attempt();
        let requests = u64::from(blame == Blame::Caller);
        let actual = Actual { requests, ..Actual::default() };
        settle_unused(&self.log, &mut self.reservation, &actual);
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
        let log = self.log.clone();
        let _settling = self.reservation.is_journalled().then(|| log.settling());
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

/// Settles what led to no answer.
fn settle_unused(log: &UsageLog, reservation: &mut Reservation, actual: &Actual) {
    let _settling = reservation.is_journalled().then(|| log.settling());
    let leases = reservation.settle(actual);
    log.leases_stand(&leases);
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
    let (usage, estimated) = bill.believed(reported, output_chars);
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

/// The counts to go by, and whether one of them is an estimate. Upstreams exist that report nothing,
/// nothing but zeros, or nonsense.
fn believed(
    reported: Option<Usage>,
    likely: u64,
    body_bytes: u64,
    output_chars: u64,
) -> (Usage, bool) {
    let estimated = Usage {
        input: likely.max(1),
        // About four characters a token.
        output: output_chars.div_ceil(4),
        ..Usage::default()
    };
    let Some(reported) = reported else { return (estimated, true) };
    // No prompt is empty, and none has many more tokens than bytes; what upstreams add of their own
    // accord is little beside the slack.
    let most_input = body_bytes.saturating_mul(4).saturating_add(MOST_ADDED_INPUT);
    let input_is_sound = (1..=most_input).contains(&reported.input);
    // Where something was said, nothing is too little; and an answer has an end.
    let output_is_sound =
        reported.output <= MOST_OUTPUT && (reported.output > 0 || output_chars == 0);
    let input = if input_is_sound { reported.input } else { estimated.input };
    let output = if output_is_sound { reported.output } else { estimated.output };
    let usage = Usage {
        input,
        output,
        cached: if input_is_sound { reported.cached.min(input) } else { 0 },
        reasoning: if output_is_sound { reported.reasoning.min(output) } else { 0 },
    };
    (usage, !(input_is_sound && output_is_sound))
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
        let of = |reported: Usage, chars| believed(Some(reported), 12, 100, chars);
        assert_eq!(of(usage(7, 2), 8), (usage(7, 2), false));
        assert_eq!(of(usage(7, 0), 0), (usage(7, 0), false), "an embedding, or an empty answer");
        assert_eq!(of(usage(7, 0), 8), (usage(7, 2), true), "zero with visible text");
        assert_eq!(of(usage(0, 2), 8), (usage(12, 2), true), "no prompt is empty");
        assert_eq!(
            of(usage(7, 1), 2000),
            (usage(7, 1), false),
            "the upstream's tokens may be long"
        );
        assert_eq!(of(usage(1 << 40, 2), 8), (usage(12, 2), true));
        assert_eq!(of(usage(7, u64::MAX), 8), (usage(7, 2), true));
        assert_eq!(believed(None, 0, 100, 9), (usage(1, 3), true));
        let odd = Usage { input: 10, output: 5, cached: 99, reasoning: 99 };
        let (clamped, _) = of(odd, 8);
        assert_eq!((clamped.cached, clamped.reasoning), (10, 5), "parts are no larger");
    }
}
