//! Looks up the `Entrypoint` and `Cmd` of images in their registries.

mod args;
mod client;
mod connection;
mod credentials;
pub(crate) mod images;

pub(crate) use args::{ImageArgs, RegistryArgs};
