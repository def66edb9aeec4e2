//! The contract of a ledger, run against every ledger there is, and what each owes beyond it.

/// Hands the list of the contract's promises to a macro that makes a test of each.
#[macro_export]
macro_rules! for_every_promise_of_a_ledger {
    ($make_tests:ident) => {
        $make_tests! {
            suite::grants_partly_and_denies,
            suite::a_minimum_is_all_or_nothing,
            suite::charges_move_from_reserved_to_used,
            suite::repeating_and_reordering_change_nothing,
            suite::a_lease_that_the_store_lost_is_believed,
            suite::a_bucket_drains,
            suite::a_sliding_window_slides,
            suite::calendar_windows_only_go_forward,
            suite::slots_come_back_by_themselves,
            suite::what_expires_is_returned_or_held,
            suite::meters_are_there_to_be_looked_at,
            suite::a_meter_may_change_its_kind,
            suite::amounts_are_exact_and_bounded,
            suite::meters_outlive_the_process,
            usage::batches_are_counted_once_and_in_order,
            usage::counters_add_up_by_day_and_month,
            usage::counters_stay_at_the_end_of_their_range,
            usage::impossible_batches_are_refused,
            cells::c5_cells_are_merged_and_told,
            cells::c5_the_later_end_wins,
            cells::c5_a_clear_of_an_old_generation_is_ignored,
            cells::c5_an_operators_newest_word_holds,
            cells::c5_ended_cells_keep_their_strikes_for_an_hour,
            cells::c5_cells_are_bounded,
            cells::c5_garbage_is_left_out,
            cells::c5_cells_outlive_the_process,
            cells::c5_cells_agree_with_the_table,
            notes::b1_notes_are_told_to_everybody_until_they_end,
            notes::b1_notes_are_bounded,
        }
    };
}

mod cells;
mod embedded;
mod faults;
mod fixture;
mod model;
mod nodes;
mod notes;
pub mod redis;
pub mod server;
mod suite;
mod usage;
