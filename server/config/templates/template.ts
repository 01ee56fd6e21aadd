/** Reads templates: $VAR, ${VAR}, ${VAR:-default}, ${VAR:?message}, $(command); `\$` stands for a dollar sign. */
import { commandEnd } from './command-end.ts';
import { ExpansionError } from './expansion-error.ts';

/** A template is read whole before anything is replaced, so that a broken one fails whatever the variables hold. */
export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'default'; readonly name: string; readonly otherwise: readonly Part[] }
  | { readonly kind: 'demanded'; readonly name: string }
  | { readonly kind: 'command'; readonly command: string };

/** The parts of a template. Throws ExpansionError where it is broken. */
export function parseTemplate(template: string): readonly Part[] {
  return new TemplateReader(template).parts();
}

/** Deeper is nobody's intention, and reading it would exhaust the stack. */
const deepest = 50;

class TemplateReader {
  readonly #template: string;
  #at = 0;
  #depth = 0;

  constructor(template: string) {
    this.#template = template;
  }

  /** Reads to the end, or within braces to the one that closes them. */
  parts(braces = false): Part[] {
    const parts: Part[] = [];
    while (this.#at < this.#template.length && !(braces && this.#sees('}'))) parts.push(this.#part());
    if (!braces) return parts;
    if (!this.#take('}')) throw this.#fault('A "${" is never closed');
    return parts;
  }

  #part(): Part {
    if (this.#take('\\$')) return { kind: 'text', text: '$' };
    if (this.#take('$(')) return this.#command();
    if (this.#take('${')) return this.#inBraces();
    if (!this.#take('$')) return { kind: 'text', text: this.#template[this.#at++] ?? '' };
    const name = this.#name();
    if (!name) throw this.#fault('A "$" stands alone');
    return { kind: 'variable', name };
  }

  #command(): Part {
    const end = commandEnd(this.#template, this.#at);
    if (end === null) throw this.#fault('A "$(" is never closed');
    const command = this.#template.slice(this.#at, end - 1);
    this.#at = end;
    return { kind: 'command', command };
  }

  #inBraces(): Part {
    const name = this.#name();
    if (!name) throw this.#fault('After "${" comes the name of a variable');
    if (this.#take(':-')) return { kind: 'default', name, otherwise: this.#nested() };
    if (this.#take(':?')) {
      this.#nested();
      return { kind: 'demanded', name };
    }
    if (this.#take('}')) return { kind: 'variable', name };
    throw this.#fault('After the name of a variable comes "}", ":-" or ":?"');
  }

  #nested(): Part[] {
    this.#depth += 1;
    if (this.#depth > deepest) throw this.#fault('The template is nested too deeply');
    const parts = this.parts(true);
    this.#depth -= 1;
    return parts;
  }

  #name(): string {
    const pattern = /[A-Za-z_][A-Za-z0-9_]*/y;
    pattern.lastIndex = this.#at;
    const [name = ''] = pattern.exec(this.#template) ?? [];
    this.#at += name.length;
    return name;
  }

  #sees(text: string): boolean {
    return this.#template.startsWith(text, this.#at);
  }

  #take(text: string): boolean {
    if (!this.#sees(text)) return false;
    this.#at += text.length;
    return true;
  }

  /** A broken template is likely a secret that happens to hold a dollar sign: only the place is shown. */
  #fault(what: string): ExpansionError {
    return new ExpansionError(
      `${what}, before character ${this.#at + 1}`,
      'For a dollar sign write "\\\\$" in the file.',
    );
  }
}
