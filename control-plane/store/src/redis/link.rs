//! The connection as it comes and goes. While the server does not answer, calls fail at once; one
//! task looks whether it is back.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use ::redis::{RedisResult, aio::MultiplexedConnection};
use tokio::{
    select,
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    config::{RedisTimeouts, Server},
    failure::{Cure, cure, reason, store_error, unavailable},
    scripts::Scripts,
    session::{Epoch, Session},
};
use crate::{
    StoreError,
    ledger::{LedgerHealth, meter::Phase},
};

#[derive(Debug)]
pub(super) struct Link {
    servers: Vec<Server>,
    prefix: String,
    pub(super) timeouts: RedisTimeouts,
    pub(super) scripts: Scripts,
    state: RwLock<State>,
    health: watch::Sender<LedgerHealth>,
    /// A connection was given up.
    lost: Notify,
}

#[derive(Debug, Clone)]
enum State {
    Up(Arc<Session>, Epoch),
    Away(String),
}

impl Link {
    /// Connects. Tries again until the start has taken too long, unless something is set up wrongly.
    pub(super) async fn start(
        servers: Vec<Server>,
        prefix: String,
        timeouts: RedisTimeouts,
    ) -> Result<Arc<Self>, StoreError> {
        let link = Self::new(servers, prefix, timeouts);
        let deadline = Instant::now() + timeouts.start;
        loop {
            match link.open().await {
                Ok(()) => return Ok(Arc::new(link)),
                Err(error @ StoreError::Misconfigured { .. }) => return Err(error),
                Err(error) if Instant::now() + timeouts.probe > deadline => return Err(error),
                Err(_) => sleep(timeouts.probe).await,
            }
        }
    }

    /// Connects if the server is there; if not, whoever supervises the link will. Fails only when
    /// something is set up wrongly.
    pub(super) async fn begin(
        servers: Vec<Server>,
        prefix: String,
        timeouts: RedisTimeouts,
    ) -> Result<Arc<Self>, StoreError> {
        let link = Self::new(servers, prefix, timeouts);
        match link.open().await {
            Err(error @ StoreError::Misconfigured { .. }) => return Err(error),
            Err(error) => link.set(State::Away(away_reason(&error))),
            Ok(()) => {}
        }
        Ok(Arc::new(link))
    }

    fn new(servers: Vec<Server>, prefix: String, timeouts: RedisTimeouts) -> Self {
        let away = "not connected yet".to_owned();
        Self {
            servers,
            prefix,
            timeouts,
            scripts: Scripts::new(),
            state: RwLock::new(State::Away(away.clone())),
            health: watch::Sender::new(LedgerHealth::Away(away)),
            lost: Notify::new(),
        }
    }

    pub(super) fn health(&self) -> watch::Receiver<LedgerHealth> {
        self.health.subscribe()
    }

    /// Lets `act` use the connection, for at most `within`. It may be called twice, when the server
    /// has forgotten the scripts. Says in which session it was done, too.
    pub(super) async fn call<T, F: Future<Output = RedisResult<T>>>(
        &self,
        within: Duration,
        act: impl Fn(MultiplexedConnection) -> F,
    ) -> Result<(T, Arc<Session>), StoreError> {
        let session = match self.state() {
            State::Up(session, _) => session,
            State::Away(reason) => return Err(unavailable(reason)),
        };
        let attempt = async {
            match act(session.connection.clone()).await {
                Err(error) if cure(&error) == Cure::Load => {
                    session.load(&self.scripts).await?;
                    act(session.connection.clone()).await
                }
                other => other,
            }
        };
        let outcome = timeout(within, attempt).await;
        let error = match outcome {
            Ok(Ok(answer)) => return Ok((answer, session)),
            Ok(Err(error)) if cure(&error) == Cure::None => return Err(store_error(&error)),
            Ok(Err(error)) => reason(&error),
            Err(_) => format!("no answer in {within:?}"),
        };
        self.give_up(&session, &error);
        Err(unavailable(error))
    }

    /// How far what is in the server can be trusted, for leases that live `ttl_ms`.
    pub(super) fn phase(&self, ttl_ms: u64) -> Phase {
        let State::Up(_, epoch) = self.state() else { return Phase::Recovering };
        let age = epoch.since.elapsed();
        if age < self.timeouts.recovery {
            Phase::Recovering
        } else if age < self.timeouts.recovery + Duration::from_millis(ttl_ms) {
            Phase::Settling
        } else {
            Phase::Normal
        }
    }

    /// Looks after the connection for ever.
    pub(super) async fn supervise(self: Arc<Self>) {
        loop {
            let next = Instant::now() + self.timeouts.probe;
            let (next, is_lost) = match self.state() {
                State::Up(_, epoch) => {
                    let recovered = epoch.since + self.timeouts.recovery;
                    (if recovered > Instant::now() { next.min(recovered) } else { next }, true)
                }
                State::Away(_) => (next, false),
            };
            select! {
                () = sleep_until(next) => {}
                () = self.lost.notified(), if is_lost => {}
            }
            match self.state() {
                State::Up(session, epoch) => self.look(&session, &epoch).await,
                State::Away(_) => {
                    if let Err(error) = self.open().await {
                        self.set(State::Away(away_reason(&error)));
                    }
                }
            }
        }
    }

    /// Is the server there, and are the data?
    async fn look(&self, session: &Arc<Session>, known: &Epoch) {
        let ask = |_| session.epoch(&self.prefix, &self.scripts);
        match self.call(self.timeouts.call, ask).await {
            Ok((epoch, _)) => {
                // Measured again it differs by the time that the answer took.
                if epoch.id != known.id {
                    self.renew(session, epoch);
                }
                self.tell();
            }
            // Then it was given up already, or the server does not let us.
            Err(error @ StoreError::Refused { .. }) => self.give_up(session, &error.to_string()),
            Err(_) => {}
        }
    }

    /// Connects to the first server that can be used.
    async fn open(&self) -> Result<(), StoreError> {
        let mut failure = None;
        for server in &self.servers {
            let patience = self.timeouts.connect;
            match Session::open(server, &self.prefix, &self.scripts, patience).await {
                Ok((session, epoch)) => {
                    self.set(State::Up(Arc::new(session), epoch));
                    return Ok(());
                }
                // What is set up wrongly is worth more to people than what is away.
                Err(error) => match failure {
                    Some(StoreError::Misconfigured { .. }) => {}
                    _ => failure = Some(error),
                },
            }
        }
        Err(failure.unwrap_or_else(|| unavailable("there is no server".to_owned())))
    }

    fn give_up(&self, session: &Arc<Session>, reason: &str) {
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Up(present, _) if Arc::ptr_eq(present, session) => {
                    *state = State::Away(reason.to_owned());
                }
                // Another call was faster.
                State::Up(..) | State::Away(_) => return,
            }
        }
        tracing::warn!(reason, "the Redis ledger is away");
        self.tell();
        self.lost.notify_one();
    }

    /// The data are not those that were there before.
    fn renew(&self, session: &Arc<Session>, epoch: Epoch) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // Unless the session was given up meanwhile.
        if matches!(&*state, State::Up(present, _) if Arc::ptr_eq(present, session)) {
            *state = State::Up(session.clone(), epoch);
        }
    }

    fn set(&self, state: State) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        self.tell();
    }

    fn tell(&self) {
        let health = match self.state() {
            State::Up(_, epoch) if epoch.since.elapsed() < self.timeouts.recovery => {
                LedgerHealth::Recovering
            }
            State::Up(..) => LedgerHealth::Ready,
            State::Away(reason) => LedgerHealth::Away(reason),
        };
        self.health.send_if_modified(|known| {
            let news = *known != health;
            if news {
                tracing::info!(?health, "the Redis ledger");
                *known = health;
            }
            news
        });
    }

    fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Without the words that every error of ours begins with, which callers will put there again.
fn away_reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. }
        | StoreError::Misconfigured { reason, .. }
        | StoreError::Refused { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}
