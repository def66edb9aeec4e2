//! What all cases share: one gateway, configured with every cell, and one scripted upstream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::Context as _;
use sluicegate_testkit::cluster::Standalone;
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::config;
use crate::script::Script;
use crate::table::{AREAS, Cell, load};

/// How many cases run at once. Few, as some of them measure time.
pub(crate) const AT_ONCE: u32 = 6;

/// The shared surroundings, which end when the last test lets go of them.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) gateway: Standalone,
    /// For all cells without a port of their own.
    upstream: Upstream,
    /// By the names of their cells.
    own_upstreams: HashMap<String, Upstream>,
    pub(crate) scripts: Arc<Scripts>,
    /// One permit for each case that may run.
    pub(crate) permits: Semaphore,
    _folder: TempDir,
    pub(crate) runtime: Runtime,
}

/// Which script each cell plays at the moment.
#[derive(Debug, Default)]
pub(crate) struct Scripts(Mutex<HashMap<String, Current>>);

#[derive(Debug)]
struct Current {
    script: Arc<Script>,
    /// Calls since the script was set.
    calls: usize,
}

/// The one world, or why there is none.
static SHARED: Mutex<Result<Weak<World>, String>> = Mutex::new(Ok(Weak::new()));

impl World {
    /// The world of this test process; the first test to ask makes it. If that fails, it fails for
    /// all, without another try.
    pub(crate) fn shared() -> anyhow::Result<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let present = shared.as_ref().map(Weak::upgrade).map_err(|e| anyhow::anyhow!("{e}"))?;
        if let Some(world) = present {
            return Ok(world);
        }
        let world = Self::start().map(Arc::new);
        *shared = match &world {
            Ok(world) => Ok(Arc::downgrade(world)),
            Err(error) => Err(format!("{error:#}")),
        };
        world
    }

    fn start() -> anyhow::Result<Self> {
        let mut cells = Vec::new();
        for area in AREAS {
            cells.extend(load(area)?.into_iter().flat_map(|case| case.cells));
        }
        let runtime = Runtime::new()?;
        let folder = TempDir::with_prefix("sluicegate-cases-")?;
        let scripts = Arc::new(Scripts::default());
        let (upstream, own_upstreams, gateway) = runtime.block_on(async {
            let upstream = scripts.clone().upstream().await?;
            let mut own_upstreams = HashMap::new();
            for cell in cells.iter().filter(|cell| cell.setup.own_port) {
                own_upstreams.insert(cell.name.clone(), scripts.clone().upstream().await?);
            }
            let address =
                |cell: &Cell| own_upstreams.get(&cell.name).unwrap_or(&upstream).address();
            let path = folder.path().join("gateway.yaml");
            std::fs::write(&path, config::of_cells(&cells, address))?;
            let gateway = Standalone::start(&path, &[], folder.path()).await;
            let gateway = gateway.context("start the gateway for all cases")?;
            anyhow::Ok((upstream, own_upstreams, gateway))
        })?;
        let permits = Semaphore::new(AT_ONCE as usize);
        Ok(Self { gateway, upstream, own_upstreams, scripts, permits, _folder: folder, runtime })
    }

    /// What the cell's providers are.
    pub(crate) fn upstream(&self, cell: &Cell) -> &Upstream {
        self.own_upstreams.get(&cell.name).unwrap_or(&self.upstream)
    }
}

impl Scripts {
    /// An upstream that plays them.
    async fn upstream(self: Arc<Self>) -> std::io::Result<Upstream> {
        Upstream::start(move |call| self.answer(call)).await
    }

    pub(crate) fn set(&self, cell: &str, script: Arc<Script>) {
        let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        scripts.insert(cell.to_owned(), Current { script, calls: 0 });
    }

    fn answer(&self, call: &Call) -> Vec<Step> {
        let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(current) = scripts.get_mut(call.cell()) else {
            return Step::json(418, r#"{"error":{"message":"no case is being played here"}}"#);
        };
        current.calls += 1;
        current.script.steps(call, current.calls - 1)
    }
}
