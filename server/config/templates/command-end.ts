/** Finds where a `$(command)` ends, as a shell reads it: parentheses in quotes, escapes and nested commands do not count. */

/** Deeper is nobody's intention, and reading it would exhaust the stack. */
const deepest = 50;

/** The place behind the parenthesis that closes the command which begins at `start`; null where none does. */
export function commandEnd(text: string, start: number): number | null {
  const scanner = new ShellScanner(text, start);
  return scanner.skip(')', 0) ? scanner.at : null;
}

/** What closes a stretch of shell text: a command, a `${…}`, or what stands in double quotes. */
type Closing = ')' | '}' | '"';

class ShellScanner {
  at: number;
  readonly #text: string;

  constructor(text: string, start: number) {
    this.#text = text;
    this.at = start;
  }

  /** Goes behind what closes the stretch; false where it never comes. */
  skip(closing: Closing, depth: number): boolean {
    if (depth > deepest) return false;
    const start = this.at;
    while (this.at < this.#text.length) {
      const letter = this.#text[this.at];
      if (letter === closing) {
        this.at += 1;
        return true;
      }
      if (closing === ')' && letter === '#' && this.#beginsWord(start)) this.#skipComment();
      else if (!this.#step(closing, depth)) return false;
    }
    return false;
  }

  #step(closing: Closing, depth: number): boolean {
    const letter = this.#text[this.at];
    if (letter === '\\') this.at += 2;
    else if (this.#take('$(')) return this.skip(')', depth + 1);
    else if (this.#take('${')) return this.skip('}', depth + 1);
    else if (letter === '`') return this.#skipQuoted('`');
    else if (closing === '"') this.at += 1;
    else if (letter === "'") return this.#skipQuoted("'");
    else if (this.#take('"')) return this.skip('"', depth + 1);
    else if (closing === ')' && this.#take('(')) return this.skip(')', depth + 1);
    else this.at += 1;
    return true;
  }

  /** Single quotes know no escapes; in backquotes a backslash protects the next letter. */
  #skipQuoted(quote: "'" | '`'): boolean {
    for (this.at += 1; this.at < this.#text.length; this.at += 1) {
      const letter = this.#text[this.at];
      if (letter === '\\' && quote === '`') this.at += 1;
      else if (letter === quote) {
        this.at += 1;
        return true;
      }
    }
    return false;
  }

  #skipComment(): void {
    const end = this.#text.indexOf('\n', this.at);
    this.at = end < 0 ? this.#text.length : end;
  }

  #beginsWord(start: number): boolean {
    return this.at === start || /[\s;&|(]/.test(this.#text[this.at - 1] ?? '');
  }

  #take(text: string): boolean {
    if (!this.#text.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }
}
