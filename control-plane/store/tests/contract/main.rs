//! The store contract, run against every store there is, and what each store owes beyond it.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach anything")]

/// Hands the list of the contract's promises to a macro that makes a test of each.
macro_rules! for_every_promise {
    ($make_tests:ident) => {
        $make_tests! {
            suite::create_only_if_absent,
            suite::compare_and_swap_tells_exact_conflicts,
            suite::a_commit_is_one_revision_or_nothing,
            suite::changing_nothing_takes_no_revision,
            suite::lists_in_key_order_below_the_prefix,
            suite::a_listing_is_of_one_revision,
            suite::concurrent_increments_lose_nothing,
            suite::entries_with_a_ttl_vanish_as_a_delete,
            suite::what_is_too_large_is_refused_unsent,
            suite::state_and_epoch_outlive_the_process,
            suite::another_epoch_is_another_history,
            watching::tells_the_past_and_then_the_present,
            watching::sees_every_revision_whole_and_in_order,
            watching::a_large_revision_is_told_whole,
            watching::goes_on_where_another_one_stopped,
            watching::a_slow_watcher_loses_nothing,
            watching::lists_again_when_history_is_gone,
            watching::a_listing_and_a_watch_join_without_a_gap,
            renewal::the_revision_is_that_of_the_newest_write,
            renewal::a_renewal_is_told_and_everything_stays,
            renewal::a_history_is_renewed_once,
        }
    };
}
pub(crate) use for_every_promise;

mod child;
mod deferred;
mod embedded;
mod etcd;
mod fixture;
mod ledger;
mod model;
mod renewal;
mod suite;
mod watching;
