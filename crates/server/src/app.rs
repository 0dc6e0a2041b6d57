//! What all requests share, and which request goes where.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router, middleware};
use serde_json::json;
use store::{Catalogue, Rules};
use tokio::sync::Semaphore;

use crate::account;
use crate::assign;
use crate::committer::Committer;
use crate::deliver::deliver;
use crate::enroll::{self, Enrolling};
use crate::error::ApiError;
use crate::ingest::{self, IngestLimits};
use crate::job_rates::JobRates;
use crate::jobs;
use crate::measure;
use crate::metrics::Metrics;
use crate::notes;
use crate::opinions;
use crate::own_tags;
use crate::places::{Places, Share};
use crate::proposals;
use crate::rate::Rates;
use crate::read;
use crate::readers::Readers;
use crate::searches;
use crate::settings::Wishes;
use crate::site;
use crate::tags;
use crate::tokens::Tokens;
use crate::wishes;

/// What all bodies of agents that are being received may hold together, in KiB, and those of importers. Bytes count, not requests:
/// one that has sent little and is slow with the rest keeps nobody out. Nobody else has a body of which much is kept.
const OF_AGENTS_KIB: usize = 192 * 1024;
const OF_IMPORTERS_KIB: usize = 64 * 1024;

/// Room for the bodies of requests, in KiB.
pub struct Bodies {
    pub of_agents: Arc<Semaphore>,
    pub of_importers: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        let room = |kib: usize| Arc::new(Semaphore::new(kib));
        Bodies { of_agents: room(OF_AGENTS_KIB), of_importers: room(OF_IMPORTERS_KIB) }
    }
}

/// What all requests share.
pub struct App {
    pub tokens: Tokens,
    pub enrolling: Enrolling,
    pub limits: IngestLimits,
    pub rates: Rates,
    pub committer: Committer,
    /// What the store has already of what a batch brings.
    pub catalogue: Arc<Catalogue>,
    pub metrics: Arc<Metrics>,
    pub bodies: Bodies,
    /// One batch per core is decoded at a time.
    pub decoders: Arc<Semaphore>,
    /// And one of a host with a token of its own.
    pub hosts: Places,
    pub readers: Arc<Readers>,
    /// For what people change.
    pub changes: Places,
    /// For answers while they are sent.
    pub answers: Places,
    pub wishes: Wishes,
    pub job_rates: JobRates,
    /// About environments.
    pub rules: Rules,
}

/// A place for each core.
pub fn places_for_decoders() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)))
}

/// A place for each host, however many there are.
pub fn places_for_hosts() -> Places {
    Places::new(Share { all: Semaphore::MAX_PERMITS, each: 1, waiting: 0, patience: Duration::ZERO })
}

/// Which request goes where.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/api/v1/ingest", post(ingest::ingest))
        .route(record::enroll::PATH, post(enroll::enroll).layer(DefaultBodyLimit::max(enroll::BODY_MAX)))
        .route("/api/v1/wishes", get(wishes::wishes))
        .route("/api/v1/accounting", post(account::account))
        .route("/api/v1/measures", post(measure::measure))
        .route("/api/v1/site", get(site::site).put(site::tell))
        .route("/api/v1/site/descriptions", get(site::descriptions).put(site::describe))
        .route("/api/v1/processes", get(read::processes))
        .route("/api/v1/top", get(read::top))
        .route("/api/v1/nodes", get(read::nodes))
        .route("/api/v1/jobs", get(jobs::jobs))
        .route("/api/v1/export", get(jobs::export))
        .route("/api/v1/jobs/columns", get(jobs::columns))
        .route("/api/v1/jobs/{id}", get(read::job))
        .route("/api/v1/jobs/{id}/tags", get(tags::explain).post(assign::assign))
        .route(
            "/api/v1/tags",
            get(tags::list).post(own_tags::declare).layer(DefaultBodyLimit::max(notes::BODY_MAX)),
        )
        .route("/api/v1/tags/{name}", delete(own_tags::retire))
        .route("/api/v1/tags/count", get(tags::count))
        .route("/api/v1/tags/try", get(tags::trial))
        .route("/api/v1/tags/run", get(tags::last_run).post(tags::begin_run))
        .route("/api/v1/jobs/{id}/opinions", post(opinions::opine))
        .route("/api/v1/opinions", get(opinions::opinions))
        .route("/api/v1/tags/software", get(tags::software_tags).post(tags::tag_software))
        .route(
            "/api/v1/notes",
            get(notes::notes).post(notes::add_note).layer(DefaultBodyLimit::max(notes::BODY_MAX)),
        )
        .route("/api/v1/notes/{number}", delete(notes::remove_note))
        .route(
            "/api/v1/cases",
            get(notes::cases).post(notes::open_case).layer(DefaultBodyLimit::max(notes::BODY_MAX)),
        )
        .route(
            "/api/v1/cases/{number}",
            post(notes::add_to_case).layer(DefaultBodyLimit::max(notes::BODY_MAX)),
        )
        .route(
            "/api/v1/proposals",
            get(proposals::proposals).post(proposals::propose).layer(DefaultBodyLimit::max(notes::BODY_MAX)),
        )
        .route(
            "/api/v1/proposals/{number}",
            post(proposals::decide).layer(DefaultBodyLimit::max(notes::BODY_MAX)),
        )
        .route(
            "/api/v1/searches",
            get(searches::list).post(searches::save).layer(DefaultBodyLimit::max(notes::BODY_MAX)),
        )
        .route("/api/v1/searches/{name}", delete(searches::forget))
        .route("/api/v1/jobs/{id}/series/{metric}", get(read::series))
        .route(
            "/api/v1/jobs/{id}/rate",
            get(wishes::rate)
                .put(wishes::set_rate)
                .delete(wishes::remove_rate)
                .layer(DefaultBodyLimit::max(wishes::BODY_MAX)),
        )
        .route("/api/v1/whoami", get(read::whoami))
        .route("/api/v1/short-jobs", get(read::short_jobs))
        .route("/api/v1/programs", get(read::programs))
        .route("/api/v1/libraries", get(read::libraries))
        .route("/api/v1/modules", get(read::modules))
        .route("/api/v1/uses", get(read::uses))
        .route("/api/v1/env-check", get(read::env_check))
        .route("/api/v1/env-check/rules", get(read::env_rules))
        .route("/api/v1/openapi.json", get(read::openapi))
        .fallback(nowhere)
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(app.clone(), deliver))
        .with_state(app)
}

async fn health(State(app): State<Arc<App>>) -> Response {
    let (status, word) = if app.committer.is_broken() {
        (StatusCode::SERVICE_UNAVAILABLE, "cannot store")
    } else {
        (StatusCode::OK, "ready")
    };
    (status, Json(json!({"status": word, "version": env!("CARGO_PKG_VERSION")}))).into_response()
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response()
}

async fn nowhere() -> ApiError {
    ApiError::NotFound("there is nothing here; the API is described at /api/v1/openapi.json".into())
}
