//! x
use anyhow::Result;
pub fn run(_args: &crate::args::DoctorArgs) -> Result<bool> {
    Ok(true)
}
