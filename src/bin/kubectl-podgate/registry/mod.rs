//! What an image runs by itself: its `Entrypoint` and `Cmd`, asked of its registry.

mod args;
mod cache;
mod client;
mod credentials;
mod image_config;
pub(crate) mod images;

pub(crate) use args::ImageArgs;
