/** Replaces variables and commands in settings at the moment of use. Nothing here is remembered: what it yields are secrets. */
import { readFileSync } from 'node:fs';
import { secretVariables } from '../providers/built-in-providers.ts';
import { ExpansionError, shown } from './expansion-error.ts';
import { type Part, parseTemplate } from './template.ts';

/** Where variables come from: process.env, or a part of it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where and how long the commands of a template run. */
export interface ExpansionOptions {
  readonly workingDirectory: string;
  /** Ends a command at once. */
  readonly signal?: AbortSignal | undefined;
  /** How long each command may take; ten seconds if absent. */
  readonly timeoutMs?: number;
}

const usualTimeoutMs = 10_000;

/**
 * The template with its variables and commands replaced; a variable that is not set is empty. The service's own
 * variables count as not set, and commands do not see them: they hold its secrets. Throws ExpansionError.
 */
export async function expandTemplate(
  template: string,
  environment: Environment,
  { workingDirectory, signal, timeoutMs = usualTimeoutMs }: ExpansionOptions,
): Promise<string> {
  const pieces = settled(parseTemplate(template), template, environment);
  const texts: string[] = [];
  // One after the other: a command may ask a person for a password.
  for (const piece of pieces) {
    if (typeof piece === 'string') texts.push(piece);
    else {
      // Few templates hold a command, and what starts processes takes long to load.
      const { runCommand } = await import('./command-substitution.ts');
      const shell = { environment: visible(environment), workingDirectory, signal, timeoutMs };
      texts.push(await runCommand(piece.command, shell, template));
    }
  }
  return texts.join('');
}

/** What a template says without any command being run; null where a command decides. Throws ExpansionError. */
export function previewTemplate(template: string, environment: Environment): string | null {
  const pieces = settled(parseTemplate(template), template, environment);
  return pieces.every((piece) => typeof piece === 'string') ? pieces.join('') : null;
}

/** A variable's value; empty where it is not set. The key of a built-in provider may stand in a file instead. */
export function lookUp(name: string, environment: Environment): string {
  if (isOurs(name)) return '';
  const value = own(name, environment);
  const file = secretVariables.has(name) ? own(`${name}_FILE`, environment) : '';
  if (value && file) {
    throw new ExpansionError(`${name} and ${name}_FILE are both set`, 'Keep one of them.');
  }
  return file ? readSecret(`${name}_FILE`, file) : value;
}

/** What the file holds that a variable names; empty where the variable is not set. */
export function lookUpFile(name: string, environment: Environment): string {
  const file = own(name, environment);
  return file && readSecret(name, file);
}

function settled(
  parts: readonly Part[],
  template: string,
  environment: Environment,
): (string | { readonly command: string })[] {
  return parts.flatMap((part) => {
    if (part.kind === 'text') return [part.text];
    if (part.kind === 'command') return [part];
    const value = lookUp(part.name, environment);
    if (part.kind === 'default' && value === '') return settled(part.otherwise, template, environment);
    if (part.kind === 'demanded' && value === '') throw unset(part.name, template);
    return [value];
  });
}

function unset(name: string, template: string): ExpansionError {
  return new ExpansionError(`The variable ${name} is not set, which ${shown(template)} demands`, 'Set it.');
}

/** They hold the secrets of the server itself; both URLs may hold passwords. */
function isOurs(name: string): boolean {
  // Windows does not tell apart upper and lower case in the names of variables.
  return /^(SERVICE_.*|(DATABASE|STORAGE)_URL(_FILE)?)$/i.test(name);
}

function visible(environment: Environment): Environment {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !isOurs(name)));
}

function own(name: string, environment: Environment): string {
  return Object.hasOwn(environment, name) ? (environment[name] ?? '') : '';
}

function readSecret(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'; // readFileSync throws nothing else
    throw new ExpansionError(
      `${name} names a file that cannot be read (${code})`,
      'Let it name a file that this user may read.',
    );
  }
}
