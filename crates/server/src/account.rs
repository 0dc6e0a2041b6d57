//! Takes jobs as their batch system accounts for them: `POST /api/v1/accounting`, from whoever imports them.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use record::accounting::{Accounting, JOBS_MAX};
use serde_json::{Value, json};
use store::{Accounted, Accounts};

use crate::app::App;
use crate::asker::Admin;
use crate::body::{self, Received};
use crate::error::ApiError;

/// Keeps jobs as their batch system accounts for them. Told again, or in another order, they are kept the same: each once, by
/// cluster, number and time of submission. The body is a CBOR array of jobs, at most 10,000. The answer comes when they are durable.
#[utoipa::path(post, path = "/api/v1/accounting", security(("token" = [])),
    request_body(content = Vec<u8>, content_type = "application/cbor"),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 413), (status = 503)))]
pub async fn account(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    if let Err(error) = Admin::check(&app, &headers) {
        body::drain(body, app.limits).await;
        return Err(error);
    }
    let Received { bytes, room } = body::read(body, app.limits, &app.bodies).await?;
    let kept = tokio::task::spawn_blocking(move || keep(&app, bytes)).await;
    drop(room);
    let kept = kept.map_err(|_| ApiError::Internal("the jobs could not be stored"))??;
    Ok(Json(json!({"new": kept.new, "replaced": kept.replaced, "older": kept.older})))
}

/// Not to be called where nothing may wait.
fn keep(app: &App, body: impl AsRef<[u8]>) -> Result<Accounted, ApiError> {
    let accounts = Accounts::of(&decode(body.as_ref())?)?;
    // It would be there until the rows are durable.
    drop(body);
    app.committer.check_disk()?;
    Ok(app.committer.take(move |writer| writer.account(&accounts))??)
}

/// A job has at least so many bytes.
const LEAST: usize = 64;

fn decode(body: &[u8]) -> Result<Vec<Accounting>, ApiError> {
    let bad = |what: String| ApiError::BadRequest(what);
    let mut decoder = minicbor::Decoder::new(body);
    let count = decoder.array().map_err(|error| bad(format!("no array of jobs: {error}")))?;
    let count = count.ok_or_else(|| bad("an array of jobs says how many there are".into()))?;
    if count > JOBS_MAX {
        return Err(bad(format!("{count} jobs in a request, at most {JOBS_MAX} are taken")));
    }
    // No more than a body of this length can have.
    let mut jobs = Vec::with_capacity((count as usize).min(body.len() / LEAST));
    for number in 1..=count {
        let job: Accounting = decoder.decode().map_err(|error| bad(format!("job {number}: {error}")))?;
        if !job.times().all(|time| i64::try_from(time).is_ok()) {
            return Err(bad(format!("job {number}, {}: a time is out of range", job.shown)));
        }
        jobs.push(job);
    }
    if decoder.position() == body.len() {
        Ok(jobs)
    } else {
        Err(bad(format!("{} bytes behind the last job", body.len() - decoder.position())))
    }
}
