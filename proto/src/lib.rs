//! Wire messages of both planes and of the admin API. No logic.

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

/// Encoded descriptors of every message and service, with comments and options.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The descriptors, parsed once.
pub static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("the build wrote these descriptors")
});

/// Desired state: resources and their references.
pub mod resource {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.resource.v1");
    }
}

/// Policy distribution to data planes.
pub mod policy {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.policy.v1");
    }
}

/// Limits that the whole fleet shares.
pub mod quota {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.quota.v1");
    }
}

/// What was used.
pub mod usage {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.usage.v1");
    }
}

/// What the fleet knows of provider keys.
pub mod pool {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.pool.v1");
    }
}

/// What the fleet knows of targets.
pub mod health {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.health.v1");
    }
}

/// Requests that are run later.
pub mod deferred {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.deferred.v1");
    }
}

/// How far degradations have gone.
pub mod degrade {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.degrade.v1");
    }
}

/// Administration.
pub mod admin {
    #[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("sluicegate.admin.v1");
    }
}
