//! The names of sessions, and which of them are logins: `UNIT.BOOT@HOST`, where the unit is the scope of a login (`session-3`), a service
//! (`cron`, `user@1000`, `docker-0123`), or, without either, the session of a terminal (`sid-LEADER-START`).

/// What the name of a terminal's session begins with.
pub const TERMINAL: &str = "sid-";
/// What the scope of a login is called by systemd, before its number.
pub const LOGIN: &str = "session-";

/// Whether somebody has logged in there. All else is a service, or runs for the manager of a user's services.
pub fn is_login(name: &str) -> bool {
    let has_number = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    let of_login = |rest: &str| {
        // Sessions that the audit does not know have a number of their own: `c2`.
        let digits = rest.strip_prefix('c').unwrap_or(rest);
        has_number(digits)
            && digits.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with('.')
    };
    name.strip_prefix(TERMINAL).is_some_and(has_number) || name.strip_prefix(LOGIN).is_some_and(of_login)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_told_from_services() {
        for (name, expected) in [
            ("sid-4711-1f00.0badcafe@n1", true),
            ("sid-4711.0badcafe@n1", true),
            ("session-3.0badcafe@n1", true),
            ("session-c2.0badcafe@login.example.org", true),
            ("cron.0badcafe@n1", false),
            ("user@1000.0badcafe@n1", false),
            ("docker-0123.0badcafe@n1", false),
            ("session-migration.0badcafe@n1", false),
            ("session-3x.0badcafe@n1", false),
            ("session-.0badcafe@n1", false),
            ("sid-", false),
            ("sidecar.0badcafe@n1", false),
            ("", false),
        ] {
            assert_eq!(is_login(name), expected, "{name}");
        }
    }
}
