//! How an upstream really behaves, where that is not what its format says.

/// What the gateway makes up for. Every member's default is to do as the format says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// Ask for usage in streams: `None`, as the format has it; false: a caller's own wish is kept
    /// from the upstream, too.
    pub ask_usage: Option<bool>,
    /// Fill usage into answers that come without, from an estimate that is marked as one.
    pub fill_usage: bool,
    /// What ends a stream.
    pub stream_end: StreamEnd,
}

/// What proves that a stream has ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamEnd {
    /// A finish reason for every choice.
    #[default]
    Finish,
    /// The server says that it is done; it gives no finish reasons.
    Done,
    /// The end of the body; the server gives neither a reason nor a last event.
    Close,
}
