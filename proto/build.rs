//! Compiles the wire definitions without a protoc installation.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "sluicegate/resource/v1/options.proto",
        "sluicegate/resource/v1/resource.proto",
        "sluicegate/policy/v1/policy.proto",
        "sluicegate/quota/v1/quota.proto",
        "sluicegate/usage/v1/usage.proto",
        "sluicegate/pool/v1/pool.proto",
        "sluicegate/health/v1/health.proto",
        "sluicegate/deferred/v1/deferred.proto",
        "sluicegate/degrade/v1/degrade.proto",
        "sluicegate/admin/v1/admin.proto",
    ];
    println!("cargo::rerun-if-changed=sluicegate");

    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_imports(true).include_source_info(true).open_files(files)?;
    // Kept as encoded by the compiler: the plain descriptor types would drop our own options.
    let encoded = compiler.encode_file_descriptor_set();
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(&out, &encoded)?;

    let descriptors = prost_types::FileDescriptorSet::decode(encoded.as_slice())?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
