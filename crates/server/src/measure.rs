//! Takes what other systems measured: `POST /api/v1/measures`, from whoever imports it.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use jiff::Timestamp;
use record::measure::{Measures, VALUES_MAX};
use serde_json::{Value, json};
use store::Measured;

use crate::app::App;
use crate::asker::Admin;
use crate::body::{self, Received};
use crate::error::ApiError;
use crate::read::nanos;

/// Keeps what other systems measured, of nodes and of jobs. A series of one job takes the place of what was known of it. The body is
/// CBOR, with at most 200,000 values. The answer comes when they are durable.
#[utoipa::path(post, path = "/api/v1/measures", security(("token" = [])),
    request_body(content = Vec<u8>, content_type = "application/cbor"),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 413), (status = 503)))]
pub async fn measure(_: Admin, State(app): State<Arc<App>>, body: Body) -> Result<Json<Value>, ApiError> {
    let Received { bytes, room } = body::read(body, app.limits, &app.bodies.of_importers).await?;
    let kept = tokio::task::spawn_blocking(move || keep(&app, &bytes)).await;
    drop(room);
    let kept = kept.map_err(|_| ApiError::Internal("the values could not be stored"))??;
    Ok(Json(json!({"values": kept.values, "told": kept.told})))
}

/// Not to be called where nothing may wait.
fn keep(app: &App, body: &[u8]) -> Result<Measured, ApiError> {
    let measures: Measures =
        minicbor::decode(body).map_err(|error| ApiError::BadRequest(format!("no measures: {error}")))?;
    let values: usize = measures.series.iter().map(|series| series.points.len()).sum();
    if values as u64 > VALUES_MAX {
        return Err(ApiError::BadRequest(format!(
            "{values} values in a request, at most {VALUES_MAX} are taken"
        )));
    }
    let times = measures
        .series
        .iter()
        .flat_map(|series| series.points.iter().map(|point| point.time).chain([series.every]));
    if !times.into_iter().all(|time| i64::try_from(time).is_ok()) {
        return Err(ApiError::BadRequest("a time is out of range".into()));
    }
    app.committer.check_disk()?;
    let now = nanos(Timestamp::now());
    Ok(app.committer.take(move |writer| writer.measure(&measures, now))??)
}
