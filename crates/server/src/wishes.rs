//! What people and agents say about the rates of jobs: `/api/v1/jobs/{id}/rate` for people, `/api/v1/wishes` for agents that have
//! nothing to send.
#![expect(unused_qualifications, reason = "in what utoipa's macros make")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, header};
use jiff::{SignedDuration, Timestamp};
use record::batch::Wishes;
use record::rate::{JOBS_HEADER, LASTS_MAX_S, Sensors, is_job_name};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::asker::Admin;
use crate::body;
use crate::error::ApiError;
use crate::job_rates::{Kept, NotKept};
use crate::read::{Asked, Rows, Where, asked};
use crate::readers::ask;

/// A request to change a rate is no longer than this.
pub const BODY_MAX: usize = 16 * 1024;
/// A rate is not finer than a millisecond and not coarser than a day; each site has a finest of its own.
const EVERY_MS: std::ops::RangeInclusive<u64> = 1..=86_400_000;
/// What agents are configured with unless a site says otherwise (`sampling.least_every_seconds`): they read no job more often.
const USUAL_FLOOR_MS: u64 = 1000;
/// Who asks, by their own word.
const WHO_MAX: usize = 200;

impl From<NotKept> for ApiError {
    fn from(error: NotKept) -> Self {
        match error {
            NotKept::TooMany => ApiError::BadRequest(error.to_string()),
            NotKept::Write(_) => {
                tracing::error!(%error, "a rate is not kept");
                ApiError::Internal("the rate could not be written")
            }
        }
    }
}

/// How often a job is to be read.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRate {
    /// Milliseconds.
    #[schema(minimum = 1, maximum = 86_400_000)]
    every_ms: u64,
    /// Groups of sensors that are read so often; the others only as usual. Without any, all.
    #[serde(default)]
    sensors: Vec<String>,
    /// Seconds for which it holds.
    #[schema(minimum = 1, maximum = 2_592_000)]
    for_s: u64,
    #[serde(default)]
    cluster: Option<String>,
    /// Who asks, by their own word.
    #[serde(default)]
    who: Option<String>,
}

impl NewRate {
    fn keep(self, job: String, set_by: String, now: Timestamp) -> Result<Kept, ApiError> {
        let bad = |what: String| Err(ApiError::BadRequest(what));
        if !EVERY_MS.contains(&self.every_ms) {
            return bad(format!("every_ms is {}, not between 1 and a day", self.every_ms));
        }
        if !(1..=LASTS_MAX_S).contains(&self.for_s) {
            return bad(format!("for_s is {}, not between 1 and {LASTS_MAX_S}", self.for_s));
        }
        let is_text = |text: &String| text.len() <= WHO_MAX && !text.chars().any(char::is_control);
        if !self.who.iter().chain(&self.cluster).all(is_text) {
            return bad("who and cluster are short texts".into());
        }
        let sensors = Sensors::parse(self.sensors.iter().map(String::as_str));
        let sensors = sensors.map_err(|error| ApiError::BadRequest(error.to_string()))?;
        Ok(Kept {
            job,
            cluster: self.cluster,
            every_ms: self.every_ms,
            sensors: sensors.names().into_iter().map(str::to_owned).collect(),
            set_by,
            who: self.who,
            set_at: now,
            until: now + SignedDuration::from_secs(self.for_s as i64),
        })
    }
}

fn row(kept: &Kept) -> Map<String, Value> {
    let row = json!({
        "job": kept.job,
        "cluster": kept.cluster,
        "every_s": kept.every_ms as f64 / 1e3,
        "sensors": Some(&kept.sensors).filter(|sensors| !sensors.is_empty()),
        "set_by": kept.set_by,
        "who": kept.who,
        "set_at": kept.set_at,
        "until": kept.until,
    });
    if let Value::Object(row) = row { row } else { Map::new() }
}

fn job_name(id: Result<Path<String>, PathRejection>) -> Result<String, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::BadRequest(error.body_text()))?;
    if is_job_name(&id) {
        Ok(id)
    } else {
        Err(ApiError::BadRequest(format!("{id:?} is no name of a batch job")))
    }
}

/// How often a job is read, where somebody asked for it.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/rate", params(("id" = String, Path), Where), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn rate(
    _: Admin,
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    query: Asked<Where>,
) -> Result<Json<Rows>, ApiError> {
    let (job, cluster) = (job_name(id)?, asked(query)?.cluster);
    let rates = app.job_rates.of_job(&job, cluster.as_deref(), Timestamp::now());
    Ok(Rows::new(rates.iter().map(row).collect(), u64::MAX))
}

/// Reads a job at another rate, for a while. The answer comes when it is durable; agents hear it with their next request. It has what may
/// be wrong with the wish: `is_known` says whether anything is known of the job, `usual_floor_s` how often agents read at most.
#[utoipa::path(put, path = "/api/v1/jobs/{id}/rate", params(("id" = String, Path)), security(("token" = [])),
    request_body = NewRate,
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 413)))]
pub async fn set_rate(
    Admin(asker): Admin,
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let body = body::small(body, BODY_MAX)?;
    let new: NewRate =
        serde_json::from_slice(&body).map_err(|error| ApiError::BadRequest(format!("no rate: {error}")))?;
    let now = Timestamp::now();
    let kept = new.keep(job_name(id)?, asker.name, now)?;
    tracing::info!(job = kept.job, every_ms = kept.every_ms, until = %kept.until, by = kept.set_by, who = kept.who, "rate");
    let (job, row) = (kept.job.clone(), row(&kept));
    // A wish is taken whether or not the store has time for a question about it.
    let is_known = ask(&app, &asker.sight, move |reader| reader.knows_job(&job)).await.ok();
    on_disk(move || app.job_rates.set(kept, now)).await??;
    let floor_s = USUAL_FLOOR_MS as f64 / 1e3;
    Ok(Json(json!({"rows": [row], "more": false, "is_known": is_known, "usual_floor_s": floor_s})))
}

/// Reads a job as usual again; the answer has how many rates it had.
#[utoipa::path(delete, path = "/api/v1/jobs/{id}/rate", params(("id" = String, Path), Where), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403)))]
pub async fn remove_rate(
    Admin(asker): Admin,
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    query: Asked<Where>,
) -> Result<Json<Value>, ApiError> {
    let (job, cluster) = (job_name(id)?, asked(query)?.cluster);
    tracing::info!(job, by = asker.name, "rate removed");
    let removed = on_disk(move || app.job_rates.remove(&job, cluster.as_deref(), Timestamp::now())).await?;
    Ok(Json(json!({"removed": removed.map_err(NotKept::from)?})))
}

/// Waits for the disk where that may take its time.
async fn on_disk<T: Send + 'static>(write: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(write).await.map_err(|_| ApiError::Internal("the rate could not be written"))
}

/// Who asks for wishes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Host {
    host: String,
}

/// What is wished of an agent that has nothing to send. The header `jobglass-jobs` has the jobs on its host, with commas.
#[utoipa::path(get, path = "/api/v1/wishes", params(Host), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 429)))]
pub async fn wishes(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    query: Asked<Host>,
) -> Result<Json<Wishes>, ApiError> {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = app.tokens.check(authorization, Timestamp::now())?;
    let Host { host } = asked(query)?;
    if !token.speaks_for(&host, peer.ip()) {
        let (id, from) = (token.id, peer.ip());
        return Err(ApiError::Forbidden(format!("token {id:?} may not speak for host {host:?} from {from}")));
    }
    if !app.rates.take(&host, Instant::now()) {
        return Err(ApiError::Rate(host));
    }
    let rates = app.job_rates.of_host(&host, &jobs(&headers), Timestamp::now());
    Ok(Json(Wishes { settings: app.wishes.current(), rates }))
}

/// The jobs that an agent says it has.
pub fn jobs(headers: &HeaderMap) -> String {
    headers.get(JOBS_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
