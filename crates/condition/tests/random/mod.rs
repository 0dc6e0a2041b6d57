//! Random conditions as text. They are made of a list of numbers, so that a shorter list is a simpler condition and a case
//! that fails can be made small.

/// Takes one number per choice; when there are no more, every choice is the first.
pub struct Choices<'a> {
    left: &'a [u16],
}

impl<'a> Choices<'a> {
    pub fn new(numbers: &'a [u16]) -> Choices<'a> {
        Choices { left: numbers }
    }

    fn below(&mut self, end: usize) -> usize {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        usize::from(*first) % end
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.below(texts.len())]
    }

    /// A condition.
    pub fn condition(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.comparison(0);
        }
        let next = depth - 1;
        match self.below(10) {
            0..=3 => self.comparison(next),
            4 => format!("({} and {})", self.condition(next), self.condition(next)),
            5 => format!("{} or {}", self.comparison(next), self.condition(next)),
            6 => format!("not ({})", self.condition(next)),
            7 => format!("({}) is {}", self.condition(next), self.one_of(&["known", "unknown"])),
            8 => {
                format!("({}) {} ({})", self.condition(next), self.one_of(&["=", "!="]), self.condition(next))
            }
            _ => {
                let [when, then, last] = [0; 3].map(|_| self.condition(next));
                format!("case when {when} then {then} else {last} end")
            }
        }
    }

    fn comparison(&mut self, depth: usize) -> String {
        match self.below(9) {
            0 => self.one_of(&["flag", "not flag", "flag = true", "flag is unknown"]).into(),
            1..=2 => self.compared(depth, Choices::number),
            3 => self.compared(depth, Choices::share),
            4 => self.compared(depth, Choices::duration),
            5 => self.compared(depth, Choices::text),
            6 => self.compared(depth, Choices::time),
            7 => self.compared(depth, Choices::bytes),
            _ => format!("{} {} {}", self.text(depth), self.one_of(&["like", "not like"]), self.pattern()),
        }
    }

    fn compared(&mut self, depth: usize, make: fn(&mut Self, usize) -> String) -> String {
        let [a, b, c] = [0; 3].map(|_| make(self, depth));
        match self.below(9) {
            0..=3 => format!("{a} {} {b}", self.one_of(&["<", "<=", ">", ">=", "=", "!="])),
            4 => format!("{a} in ({b}, {c})"),
            5 => format!("{a} not in ({b}, {c})"),
            6 => format!("{a} between {b} and {c}"),
            7 => format!("{a} not between {b} and {c}"),
            _ => format!("{a} is known"),
        }
    }

    /// What all types have: a function, a choice, or one of their own.
    fn general(&mut self, depth: usize, make: fn(&mut Self, usize) -> String) -> String {
        let next = depth - 1;
        let [a, b] = [0; 2].map(|_| make(self, next));
        match self.below(4) {
            0 => format!("{}({a}, {b})", self.one_of(&["least", "greatest", "coalesce"])),
            1 => format!("case when {} then {a} else {b} end", self.condition(next)),
            2 => format!("case when {} then {a} end", self.condition(next)),
            _ => make(self, next),
        }
    }

    fn number(&mut self, depth: usize) -> String {
        const SIMPLE: [&str; 11] = [
            "n",
            "m",
            "i",
            "0.5",
            "-1",
            "7",
            "1e300",
            "3e-7",
            "flops",
            "(bytes / kib)",
            "(waited / elapsed)",
        ];
        match if depth == 0 { 0 } else { self.below(5) } {
            0..=1 => self.one_of(&SIMPLE).into(),
            2 => {
                let sign = self.one_of(&["+", "-", "*"]);
                format!("({} {sign} {})", self.number(depth - 1), self.number(depth - 1))
            }
            // A plain zero is no divisor.
            3 => format!("({} / (n + {}))", self.number(depth - 1), self.number(depth - 1)),
            _ if self.below(3) == 0 => format!("abs(-{})", self.number(depth - 1)),
            _ => self.general(depth, Choices::number),
        }
    }

    fn share(&mut self, depth: usize) -> String {
        const SIMPLE: [&str; 8] =
            ["percent", "fraction", "35%", "(percent + 1%)", "(fraction * 2)", "50%", "(percent / n)", "-1%"];
        if depth > 0 && self.below(3) == 0 {
            self.general(depth, Choices::share)
        } else {
            self.one_of(&SIMPLE).into()
        }
    }

    fn bytes(&mut self, depth: usize) -> String {
        const SIMPLE: [&str; 6] =
            ["bytes", "kib", "4KiB", "(kib - 1kB)", "(rate * elapsed)", "(bytes * 50%)"];
        if depth > 0 && self.below(3) == 0 {
            self.general(depth, Choices::bytes)
        } else {
            self.one_of(&SIMPLE).into()
        }
    }

    fn duration(&mut self, depth: usize) -> String {
        const SIMPLE: [&str; 7] =
            ["elapsed", "waited", "1s", "(late - early)", "(elapsed + 500ms)", "(bytes / rate)", "-1m"];
        if depth > 0 && self.below(3) == 0 {
            self.general(depth, Choices::duration)
        } else {
            self.one_of(&SIMPLE).into()
        }
    }

    fn time(&mut self, depth: usize) -> String {
        const SIMPLE: [&str; 4] = ["early", "late", "2026-01-01", "1970-01-01T00:00:00.000000001Z"];
        if depth > 0 && self.below(3) == 0 {
            self.general(depth, Choices::time)
        } else {
            self.one_of(&SIMPLE).into()
        }
    }

    fn text(&mut self, depth: usize) -> String {
        const SIMPLE: [&str; 8] = ["s", "t", "'a'", "'Ab'", "''", "lower(s)", "'日''本'", "\"a_%\\\""];
        if depth > 0 && self.below(3) == 0 {
            self.general(depth, Choices::text)
        } else {
            self.one_of(&SIMPLE).into()
        }
    }

    fn pattern(&mut self) -> String {
        let parts = [0; 4].map(|_| self.one_of(&["", "a", "%", "_", "B", "\\%", "\\_", "\\\\", "日", "''"]));
        format!("'{}'", parts.concat())
    }
}
