//! The contract on etcd, and what its store owes when the server freezes, dies or goes back.

mod faults;
mod hush;
mod server;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use etcd_client::Client;
use proptest::{prelude::*, test_runner::TestRunner};
use server::Server;
use sluicegate_store::{
    ConfigStore, Revision,
    etcd::{EtcdConfig, EtcdStore},
};

use crate::{fixture::*, model, renewal, suite, watching};

struct Etcd {
    server: Arc<Server>,
    prefix: String,
    store: EtcdStore,
}

impl Etcd {
    async fn on(server: Arc<Server>, prefix: String) -> Self {
        let store = connect(&server, &prefix).await;
        Self { server, prefix, store }
    }
}

async fn connect(server: &Server, prefix: &str) -> EtcdStore {
    let config = EtcdConfig { prefix: prefix.to_owned(), ..EtcdConfig::new([server.url()]) };
    EtcdStore::connect(config).await.unwrap()
}

async fn compact(url: &str, revision: Revision) {
    let mut client = Client::connect([url], None).await.unwrap();
    client.compact(i64::try_from(revision).unwrap(), None).await.unwrap();
}

#[async_trait]
impl Fixture for Etcd {
    async fn start() -> Self {
        let server = Arc::new(Server::start().await);
        let fixture = Self::on(server, "/sluicegate/".to_owned()).await;
        // Makes the id of the history, which takes a revision that no test counts on.
        fixture.store.epoch().await.unwrap();
        fixture
    }

    fn store(&self) -> &dyn ConfigStore {
        &self.store
    }

    async fn reopen(&mut self) {
        self.store = connect(&self.server, &self.prefix).await;
    }

    async fn forget(&self) {
        let revision = self.store.list("").await.unwrap().revision;
        compact(&self.server.url(), revision).await;
    }
}

macro_rules! contract {
    ($($module:ident :: $promise:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $module::$promise::<Etcd>().await;
            }
        )+
    };
}

crate::for_every_promise!(contract);

#[test]
fn agrees_with_the_model() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Arc::new(runtime.block_on(Server::start()));
    let cases = AtomicUsize::new(0);
    let config = ProptestConfig { cases: 8, failure_persistence: None, ..Default::default() };
    let agrees = |steps: Vec<model::Step>| {
        let case = cases.fetch_add(1, Ordering::Relaxed);
        runtime.block_on(async {
            let mut fixture = Etcd::on(server.clone(), format!("/case-{case}/")).await;
            fixture.store.epoch().await.unwrap();
            model::agrees(&mut fixture, &steps).await;
        });
        Ok(())
    };
    TestRunner::new(config).run(&model::steps(80), agrees).unwrap();
}
