//! What a batch system says of its machine: `PUT /api/v1/site` from whoever imports it, `GET` for those who ask.
#![expect(unused_qualifications, reason = "in what utoipa's macros make")]

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use jiff::Timestamp;
use record::accounting::TimeLimit;
use record::site::{Description, SiteData};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::app::App;
use crate::asker::{Admin, Asker};
use crate::body::{self, Received};
use crate::error::ApiError;
use crate::read::{Asked, asked, check_text, nanos};
use crate::readers::ask;

/// Keeps what a batch system says of a cluster, in place of what it said before. The body is one record as CBOR.
#[utoipa::path(put, path = "/api/v1/site", security(("token" = [])),
    request_body(content = Vec<u8>, content_type = "application/cbor"),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 413), (status = 503)))]
pub async fn tell(_: Admin, State(app): State<Arc<App>>, body: Body) -> Result<Json<Value>, ApiError> {
    let Received { bytes, room } = body::read(body, app.limits, &app.bodies.of_importers).await?;
    let kept = tokio::task::spawn_blocking(move || keep(&app, &bytes)).await;
    drop(room);
    kept.map_err(|_| ApiError::Internal("what was told could not be stored"))?.map(Json)
}

/// Not to be called where nothing may wait.
fn keep(app: &App, body: &[u8]) -> Result<Value, ApiError> {
    let site = decode(body)?;
    app.committer.check_disk()?;
    let told = json!({"partitions": site.partitions.len(), "nodes": site.nodes.len(), "associations": site.associations.len()});
    app.committer.perform(move |writer| writer.keep_site(&site, nanos(Timestamp::now())))??;
    Ok(told)
}

fn decode(body: &[u8]) -> Result<SiteData, ApiError> {
    let bad = |what: String| ApiError::BadRequest(what);
    let mut decoder = minicbor::Decoder::new(body);
    let site: SiteData = decoder.decode().map_err(|error| bad(format!("nothing about a site: {error}")))?;
    if decoder.position() != body.len() {
        return Err(bad(format!("{} bytes behind the end", body.len() - decoder.position())));
    }
    let limits = site.partitions.iter().flat_map(|partition| {
        let most = match partition.max_time {
            Some(TimeLimit::Nanos(time)) => Some(time),
            _ => None,
        };
        [partition.default_time, most]
    });
    let age = site.config.as_ref().and_then(|config| config.min_job_age);
    if limits.chain([age]).flatten().any(|time| i64::try_from(time).is_err()) {
        return Err(bad("a time is out of range".into()));
    }
    Ok(site)
}

/// Keeps a cluster as ClusterCockpit describes it, its `cluster.json` as it is, in place of the one before. The body is one record as CBOR.
#[utoipa::path(put, path = "/api/v1/site/descriptions", security(("token" = [])),
    request_body(content = Vec<u8>, content_type = "application/cbor"),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 413), (status = 503)))]
pub async fn describe(_: Admin, State(app): State<Arc<App>>, body: Body) -> Result<Json<Value>, ApiError> {
    let Received { bytes, room } = body::read(body, app.limits, &app.bodies.of_importers).await?;
    let kept = tokio::task::spawn_blocking(move || {
        let of: Description = minicbor::decode(&bytes)
            .map_err(|error| ApiError::BadRequest(format!("no description of a cluster: {error}")))?;
        check_text(&of.cluster)?;
        app.committer.check_disk()?;
        app.committer.perform(move |writer| writer.keep_description(&of, nanos(Timestamp::now())))??;
        Ok(json!({}))
    });
    let kept = kept.await;
    drop(room);
    kept.map_err(|_| ApiError::Internal("the description could not be stored"))?.map(Json)
}

/// Clusters as they were described, as a CBOR array.
#[utoipa::path(get, path = "/api/v1/site/descriptions", security(("token" = [])),
    responses((status = 200, body = Vec<u8>, content_type = "application/cbor"), (status = 401), (status = 403)))]
pub async fn descriptions(asker: Asker, State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let found = ask(&app, &asker.sight, |reader| reader.descriptions()).await?;
    let body = minicbor::to_vec(&found).map_err(|_| ApiError::Internal("the clusters cannot be written"))?;
    Ok(([(header::CONTENT_TYPE, "application/cbor")], body))
}

/// What is asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// This cluster only.
    cluster: Option<String>,
}

/// Clusters, partitions, nodes and associations as their batch system told them last, with what `site.toml` says over it;
/// `unmatched` is what of that file is not there.
#[utoipa::path(get, path = "/api/v1/site", params(Which), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403)))]
pub async fn site(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Which>,
) -> Result<Json<Value>, ApiError> {
    let cluster = asked(query)?.cluster;
    cluster.as_deref().map_or(Ok(()), check_text)?;
    Ok(Json(ask(&app, &asker.sight, move |reader| reader.site(cluster.as_deref())).await?))
}
