//! What people say of jobs: `POST /api/v1/jobs/{id}/tags`, by the job's owner, the managers of its project and administrators.
#![expect(unused_qualifications, reason = "in what utoipa's macros make")]

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use store::Filter;
use store::people::{People, Role};
use store::query::tags::Owned;
use store::tags::{Assignment, on_job, wished};
use utoipa::IntoParams;

use crate::app::App;
use crate::asker::Asker;
use crate::error::ApiError;
use crate::read::{Asked, asked, check_text};
use crate::readers::ask;
use crate::writing::write;

/// A reason is a sentence or two.
const REASON_MAX: usize = 1000;

/// What is said of a job.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Said {
    cluster: Option<String>,
    /// A tag that is declared and available.
    tag: String,
    /// Whether the job has it; with false, it has it not from now on, whatever its rule says.
    has: bool,
    /// Why.
    #[param(max_length = 1000)]
    reason: Option<String>,
    /// Nobody else is to see it.
    #[serde(default)]
    personal: bool,
}

/// Sets a tag on a job, or takes it off: the last word counts, until it is replaced.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/tags", params(("id" = String, Path), Said), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409), (status = 503)))]
pub async fn assign(
    asker: Asker,
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    query: Asked<Said>,
) -> Result<Json<Value>, ApiError> {
    let Path(job) = id.map_err(|error| ApiError::BadRequest(error.body_text()))?;
    let Said { cluster, tag, has, reason, personal } = asked(query)?;
    [Some(&job), cluster.as_ref()].into_iter().flatten().try_for_each(|text| check_text(text))?;
    check_reason(reason.as_deref())?;
    let declared = app.readers.tags(&asker.sight);
    let known = wished(&declared, &tag).map_err(ApiError::BadRequest)?;
    let owned = owned(&app, &asker, &job, cluster).await?;
    let is_own = on_job(known, owned.project.as_deref()).map_err(ApiError::BadRequest)?;
    let personal = personal || is_own;
    if !personal && !may_assign(&asker, &app.readers.people(), &owned) {
        return Err(ApiError::Forbidden(format!(
            "{} may not tag job {job}: its owner, managers of its project and administrators may; personal tags are for yourself",
            asker.name
        )));
    }
    let said = Assignment {
        id: owned.id,
        tag: known.tag.declared.id,
        is_set: has,
        is_personal: personal,
        by: asker.name.clone(),
        by_administrator: asker.role == Role::Administrator,
        reason,
    };
    let name = known.tag.declared.name.to_string();
    tracing::info!(job, tag = name, has, by = asker.name, "tag by hand");
    let is_new = write(&app, &asker, move |writer| writer.assign(&said)).await?;
    Ok(Json(json!({"job": job, "tag": name, "has": has, "is_new": is_new})))
}

/// Why somebody says something.
pub fn check_reason(reason: Option<&str>) -> Result<(), ApiError> {
    let Some(text) = reason else { return Ok(()) };
    if text.len() > REASON_MAX {
        return Err(ApiError::BadRequest(format!("the reason is longer than {REASON_MAX} bytes")));
    }
    check_text(text)
}

/// A job that whoever asks sees.
pub async fn owned(
    app: &Arc<App>,
    asker: &Asker,
    job: &str,
    cluster: Option<String>,
) -> Result<Owned, ApiError> {
    let filter = Filter { cluster, job: Some(job.to_owned()), ..Filter::default() };
    let found = ask(app, &asker.sight, move |reader| reader.owned(&filter)).await?;
    found.ok_or_else(|| ApiError::NotFound(format!("nothing is known of job {job}")))
}

fn may_assign(asker: &Asker, people: &People, job: &Owned) -> bool {
    asker.role == Role::Administrator
        || job.user.as_deref() == Some(&asker.name)
        || job.project.as_deref().is_some_and(|project| people.manages(&asker.name, project))
}
