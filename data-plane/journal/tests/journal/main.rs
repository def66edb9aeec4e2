//! The journal against crashes, lost acknowledgements, stores that fall back, and full disks.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod model;
#[cfg(test)]
mod sending;
#[cfg(test)]
mod support;
