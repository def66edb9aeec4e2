//! The contract of deferred requests, run against every store there is, and what each owes beyond it.

/// Hands the list of the contract's promises to a macro that makes a test of each.
#[macro_export]
macro_rules! for_every_promise_of_deferred {
    ($make_tests:ident) => {
        $make_tests! {
            suite::b2_a_job_is_kept_run_and_fetched,
            suite::b2_the_same_key_gives_the_same_id,
            suite::b2_queues_are_first_in_first_out,
            suite::b2_parties_take_turns,
            suite::b2_nobody_fills_the_room_of_others,
            suite::b2_a_lost_answer_to_a_claim_is_given_again,
            suite::b2_a_lease_that_runs_out_gives_the_job_back,
            suite::b2_the_first_result_stands,
            suite::b2_a_late_result_counts_if_there_is_none,
            suite::b2_a_released_job_waits_in_its_old_place,
            suite::b2_a_cancelled_job_is_not_run,
            suite::b2_jobs_and_results_expire,
            suite::b2_ends_are_delivered_until_somebody_has_them,
            suite::b2_bounds_are_named,
            suite::b2_all_jobs_are_listed_page_by_page,
            suite::names_that_cannot_be_kept_are_refused,
            suite::two_claimers_never_get_the_same_job,
            suite::jobs_outlive_the_process,
            suite::a13_a_clock_that_is_set_ends_nothing,
            model::the_store_agrees_with_the_engine,
        }
    };
}

mod embedded;
mod faults;
mod fixture;
mod model;
mod redis;
mod suite;
