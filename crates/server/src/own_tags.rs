//! Tags that people declare for a project or for themselves, and give up again.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use store::people::Role;
use store::tags::is_own;
use tags::{Name, Space};
use utoipa::ToSchema;

use crate::app::App;
use crate::asker::Asker;
use crate::error::ApiError;
use crate::notes::{check_long, parsed};
use crate::proposals::check_name;
use crate::writing::write;

/// A tag for a project or for oneself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTag {
    name: String,
    /// What it says of a job, in full sentences.
    description: String,
    /// For those who are in it; without, for oneself.
    project: Option<String>,
}

/// Declares a tag that people set: for a project, by its managers and administrators, or for oneself.
#[utoipa::path(post, path = "/api/v1/tags", security(("token" = [])), request_body = NewTag,
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 409), (status = 413), (status = 503)))]
pub async fn declare(
    asker: Asker,
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let NewTag { name, description, project } = parsed(body)?;
    let space = project.map_or_else(|| Space::Personal(asker.name.clone()), Space::Project);
    check_say(&app, &asker, &space)?;
    check_long(&description)?;
    check_name(&name, &app.readers.tags(&asker.sight))?;
    let name = Name::try_from(name).map_err(|error| ApiError::BadRequest(error.to_string()))?;
    let shown = json!({"tag": name.as_str(), "space": space.to_string()});
    let by = asker.name.clone();
    let declared = write(&app, &asker, move |writer| writer.declare_own(&name, &space, &description, &by));
    declared.await?.map_err(ApiError::BadRequest)?;
    Ok(Json(shown))
}

/// Gives up a tag that was declared so: nobody can set it any more, and jobs have it no longer.
#[utoipa::path(delete, path = "/api/v1/tags/{name}", params(("name" = String, Path)), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404), (status = 503)))]
pub async fn retire(
    asker: Asker,
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name.map_err(|error| ApiError::BadRequest(error.body_text()))?;
    let declared = app.readers.tags(&asker.sight);
    let known =
        declared.named(&name).ok_or_else(|| ApiError::NotFound(format!("there is no tag `{name}`")))?;
    let (id, space) = (known.tag.declared.id, known.tag.declared.space.clone());
    if !is_own(id) {
        return Err(ApiError::BadRequest(format!(
            "`{}` is the site's: it is switched off in its site.toml",
            known.tag.declared.name
        )));
    }
    check_say(&app, &asker, &space)?;
    let retired = write(&app, &asker, move |writer| writer.retire_own(id)).await?;
    Ok(Json(json!({"tag": known.tag.declared.name.as_str(), "retired": retired})))
}

/// Whether whoever asks has a say in the tags of a space.
fn check_say(app: &App, asker: &Asker, space: &Space) -> Result<(), ApiError> {
    match space {
        Space::Personal(user) if *user == asker.name => Ok(()),
        Space::Project(_) if asker.role == Role::Administrator => Ok(()),
        Space::Project(name) if app.readers.people().manages(&asker.name, name) => Ok(()),
        _ => Err(ApiError::Forbidden(format!(
            "{} has no say in tags of {space}: managers of the project and administrators have",
            asker.name
        ))),
    }
}
