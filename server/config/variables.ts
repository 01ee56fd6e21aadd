/** Replaces variables in settings at the moment of use: $VAR, ${VAR}, ${VAR:-default}, ${VAR:?message}. */

/** Where variables come from: process.env, or a part of it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A template that cannot be expanded. The message shows the template, never what a variable holds. */
export class ExpansionError extends Error {
  readonly fault: string;
  /** What to do about it. */
  readonly remedy: string;

  constructor(fault: string, remedy: string) {
    super(`${fault}. ${remedy}`);
    this.name = 'ExpansionError';
    this.fault = fault;
    this.remedy = remedy;
  }
}

/** A template is read whole before anything is replaced, so that a broken one fails whatever the variables hold. */
type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'default'; readonly name: string; readonly otherwise: readonly Part[] }
  | { readonly kind: 'demanded'; readonly name: string };

/**
 * The template with its variables replaced; one that is not set is empty. `\$` stands for a dollar sign.
 * The service's own SERVICE_* variables count as not set: they hold its secrets.
 */
export function expandVariables(template: string, environment: Environment): string {
  return render(new TemplateReader(template).parts(), template, environment);
}

function render(parts: readonly Part[], template: string, environment: Environment): string {
  return parts.map((part) => renderPart(part, template, environment)).join('');
}

function renderPart(part: Part, template: string, environment: Environment): string {
  if (part.kind === 'text') return part.text;
  const value = lookUp(part.name, environment);
  if (part.kind === 'default' && value === '') return render(part.otherwise, template, environment);
  if (part.kind === 'demanded' && value === '') {
    throw new ExpansionError(
      `The variable ${part.name} is not set, which ${shown(template)} demands`,
      'Set it.',
    );
  }
  return value;
}

function lookUp(name: string, environment: Environment): string {
  // Windows does not tell apart upper and lower case in the names of variables.
  if (name.toUpperCase().startsWith('SERVICE_')) return '';
  return Object.hasOwn(environment, name) ? (environment[name] ?? '') : '';
}

class TemplateReader {
  readonly #template: string;
  #at = 0;

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
    if (this.#sees('$(')) {
      const fault = `Commands are not run in this version, so ${shown(this.#template)} has no value`;
      throw new ExpansionError(fault, 'Put the value into a variable.');
    }
    if (this.#take('${')) return this.#inBraces();
    if (!this.#take('$')) return { kind: 'text', text: this.#template[this.#at++] ?? '' };
    const name = this.#name();
    if (!name) throw this.#fault('A "$" stands alone');
    return { kind: 'variable', name };
  }

  #inBraces(): Part {
    const name = this.#name();
    if (!name) throw this.#fault('After "${" comes the name of a variable');
    if (this.#take(':-')) return { kind: 'default', name, otherwise: this.parts(true) };
    if (this.#take(':?')) {
      this.parts(true);
      return { kind: 'demanded', name };
    }
    if (this.#take('}')) return { kind: 'variable', name };
    throw this.#fault('After the name of a variable comes "}", ":-" or ":?"');
  }

  #name(): string {
    const [name = ''] = /^[A-Za-z_][A-Za-z0-9_]*/.exec(this.#template.slice(this.#at)) ?? [];
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

/** A template for the eyes of a person: long enough to recognise, and harmless in a terminal. */
export function shown(template: string): string {
  return JSON.stringify(template.slice(0, 512).replaceAll(/\p{Cc}/gu, ' '));
}
