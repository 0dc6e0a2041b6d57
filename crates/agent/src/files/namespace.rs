//! Mount namespaces other than ours: which one is which, and whether it is a container's.

use record::entry::Container;
use sample::process::RootId;

/// Whoever makes a container mounts and switches to its root within this time.
const YOUNG_NS: u64 = 10_000_000_000;
/// A namespace that was there for longer and is no container's is looked at no more often than this.
const OLD_EVERY_NS: u64 = 1_000_000_000;

/// A root directory in a mount namespace.
///
/// The kernel gives a namespace's number to another one as soon as it is gone. So the moment belongs to it at which a process was
/// first seen in it: a descendant of that process that is in a namespace of this number is in the same one, and whoever else is in
/// a namespace of this number may be in another one. A runtime makes the namespace first and switches its root later, so the
/// root belongs to it as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Namespace {
    pub number: u64,
    /// Monotonic.
    pub since: u64,
    pub root: RootId,
}

/// What the root of a namespace looked like.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// A container stays one.
    pub container: Option<Container>,
    /// When it was last seen to be none, monotonic.
    pub outside_at: u64,
}

impl Looked {
    /// Whether it has to be looked at for a program that begins now.
    pub fn is_stale(&self, namespace: Namespace, now: u64) -> bool {
        let is_young = now.saturating_sub(namespace.since) < YOUNG_NS;
        let is_old_news = now.saturating_sub(self.outside_at) >= OLD_EVERY_NS;
        self.container.is_none() && (is_young || is_old_news)
    }

    /// Whether this says anything about an image that began at a time.
    pub fn is_about(&self, start: u64) -> bool {
        self.container.is_some() || self.outside_at >= start
    }

    /// The container of an image that began at a time. One that was there when it was none yet, such as the program that makes
    /// it, is not in it.
    pub fn container(&self, start: u64) -> Option<&Container> {
        self.container.as_ref().filter(|_| start > self.outside_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn seen(container: bool, outside_at: u64) -> Looked {
        let container = container.then(|| Container { kind: "x".into(), image: None });
        Looked { container, outside_at }
    }

    #[test]
    fn a_namespace_that_is_no_container_yet_is_looked_at_again() {
        let namespace = Namespace { number: 7, since: 100 * S, root: RootId::default() };
        for (looked, now, is_stale) in [
            // Young: its root may be made ready at this moment.
            (seen(false, 100 * S), 100 * S, true),
            (seen(false, 109 * S), 109 * S, true),
            // Old: seldom, but never for good.
            (seen(false, 115 * S), 115 * S + S / 2, false),
            (seen(false, 115 * S), 116 * S, true),
            (seen(true, 0), 101 * S, false),
            (seen(true, 115 * S), 200 * S, false),
        ] {
            assert_eq!(looked.is_stale(namespace, now), is_stale, "{looked:?} {now}");
        }
    }

    #[test]
    fn images_that_began_before_the_container_are_not_in_it() {
        assert!(seen(true, 5).container(4).is_none());
        assert!(
            seen(true, 5).container(5).is_none(),
            "it was looked at in the moment in which the image began"
        );
        assert!(seen(true, 5).container(6).is_some());
        assert!(seen(true, 0).container(1).is_some());
        assert!(seen(false, 5).container(6).is_none());
        assert!(seen(false, 5).is_about(5) && !seen(false, 5).is_about(6) && seen(true, 5).is_about(6));
    }
}
