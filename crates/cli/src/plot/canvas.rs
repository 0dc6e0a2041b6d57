//! Dots in a grid of characters: braille with eight dots each, or ASCII with one.

/// What the characters are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Braille,
    Ascii,
}

/// How a dot is meant. In braille all dots look alike; in ASCII a line covers a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ink {
    Range,
    Line,
}

impl Style {
    /// Dots of one character: beside each other, and above each other.
    pub fn dots(self) -> (usize, usize) {
        match self {
            Style::Braille => (2, 4),
            Style::Ascii => (1, 1),
        }
    }
}

/// The bits of U+2800 by column and row of the dot.
const BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
const BRAILLE: u32 = 0x2800;

/// A grid of dots; the first row is on top.
#[derive(Debug)]
pub struct Canvas {
    style: Style,
    width: usize,
    dots: Vec<Vec<Option<Ink>>>,
}

impl Canvas {
    /// As wide and high as so many characters.
    pub fn new(style: Style, width: usize, height: usize) -> Canvas {
        let (across, down) = style.dots();
        Canvas { style, width, dots: vec![vec![None; width * across]; height * down] }
    }

    /// What lies outside is left out.
    pub fn set(&mut self, x: usize, y: usize, ink: Ink) {
        if let Some(dot) = self.dots.get_mut(y).and_then(|row| row.get_mut(x)) {
            *dot = (*dot).max(Some(ink));
        }
    }

    /// The characters, line by line.
    pub fn lines(&self) -> Vec<String> {
        let (_, down) = self.style.dots();
        let line = |rows: &[Vec<Option<Ink>>]| (0..self.width).map(|at| self.character(rows, at)).collect();
        self.dots.chunks(down).map(line).collect()
    }

    fn character(&self, rows: &[Vec<Option<Ink>>], at: usize) -> char {
        let (across, _) = self.style.dots();
        let dot =
            |x: usize, y: usize| rows.get(y).and_then(|row| row.get(at * across + x)).copied().flatten();
        match self.style {
            Style::Ascii => match dot(0, 0) {
                Some(Ink::Line) => '*',
                Some(Ink::Range) => '.',
                None => ' ',
            },
            Style::Braille => {
                let is_set = |(x, y): &(usize, usize)| dot(*x, *y).is_some();
                let places = (0..2).flat_map(|x| (0..4).map(move |y| (x, y)));
                let bits: u32 = places.filter(is_set).map(|(x, y)| BITS[x][y]).sum();
                if bits == 0 { ' ' } else { char::from_u32(BRAILLE + bits).unwrap_or(' ') }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_become_characters() {
        let mut canvas = Canvas::new(Style::Braille, 2, 1);
        for (x, y) in [(0, 0), (1, 3), (2, 1), (9, 9)] {
            canvas.set(x, y, Ink::Line);
        }
        assert_eq!(canvas.lines(), ["⢁⠂"]);
        let mut canvas = Canvas::new(Style::Ascii, 3, 2);
        canvas.set(0, 0, Ink::Range);
        canvas.set(1, 1, Ink::Range);
        canvas.set(1, 1, Ink::Line);
        canvas.set(1, 1, Ink::Range);
        assert_eq!(canvas.lines(), [".  ", " * "]);
    }
}
