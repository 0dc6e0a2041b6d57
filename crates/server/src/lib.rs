//! The server: takes batches of agents, keeps them in the store, and answers questions about them.
//!
//! A request comes through [`connections`], is sent by [`app`] to its handler ([`ingest`], [`read`], [`wishes`]), which asks [`tokens`],
//! [`asker`] and [`rate`] whether it may, and hands what is to be stored to the one writing thread ([`committer`]).
//! Questions go to the store through [`readers`], with the sight of whoever asks.
//! The administrator's own machine has a second way in ([`control`]): backups, and deleting; its users have a way to a token ([`login`]).
//! Agents get theirs with an enrollment token ([`enroll`], by the rules of [`enrollment`]).

pub mod account;
pub mod app;
pub mod asker;
pub mod assign;
pub mod backup;
pub mod body;
pub mod committer;
pub mod connections;
pub mod control;
pub mod data;
pub mod deliver;
pub mod enroll;
pub mod enrollment;
pub mod error;
pub mod ingest;
pub mod job_rates;
pub mod jobs;
pub mod judging;
pub mod keep;
pub mod login;
pub mod measure;
pub mod metrics;
pub mod notes;
pub mod opinions;
pub mod own_tags;
pub mod places;
pub mod private;
pub mod proposals;
pub mod rate;
pub mod read;
pub mod readers;
pub mod retention;
pub mod rounds;
pub mod rules_watch;
pub mod searches;
pub mod secret;
pub mod serve;
pub mod settings;
pub mod site;
pub mod summaries;
pub mod tags;
pub mod tls;
pub mod token_file;
pub mod token_uses;
pub mod tokens;
pub mod wishes;
pub mod writing;
