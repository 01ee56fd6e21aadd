/** What a person must see before a settings file is trusted: all that it would run or reach, and nothing hidden. */
import { createHash } from 'node:crypto';
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import type { Place } from '../diagnostic.ts';
import type { SettingsLayer, SettingsPlaces } from '../loaded-settings.ts';
import { isObject, pointerKeys, valueAt } from '../pointer.ts';
import { type SettingsSchema, schemaAt, schemaBelow } from '../schema-marks.ts';
import { ExpansionError } from '../templates/expansion-error.ts';
import { parseTemplate } from '../templates/template.ts';
import { visibleText } from '../visible-text.ts';
import { escapingPaths, restrictedPointers } from './restrict.ts';

/** One section that counts only when its file is trusted. */
export interface ReviewSection {
  /** The JSON pointer of the section, under its proper name. */
  readonly pointer: string;
  readonly place: Place | null;
  /** Each value on a line of its own, in full, and harmless for a terminal. */
  readonly lines: readonly string[];
}

/** What there is to trust in a file. */
export interface Review {
  /** The path as it was looked for. It may hold anything that a file name can: make it harmless before printing it. */
  readonly file: string;
  /** Empty where nothing needs trust. */
  readonly sections: readonly ReviewSection[];
  /** The lines of all sections; kept with the trust, for the difference next time. */
  readonly text: string;
  /** What changed since the file was last trusted, as a unified diff; empty if nothing, null where it never was. */
  readonly diff: string | null;
}

/** What a review needs to know of a file. */
export type Reviewable = Pick<SettingsLayer, 'file' | 'written' | 'place'>;

/** What somebody who trusts this file would let count. `previous` is the text of the review that was trusted last. */
export async function reviewLayer(
  { file, written, place }: Reviewable,
  places: Pick<SettingsPlaces, 'workingDirectory' | 'projectRoot'>,
  previous: string | null,
): Promise<Review> {
  const pointers = [...restrictedPointers(written), ...(await escapingPaths(written, places))];
  // Sorted, so that moving a section within the file makes no difference.
  const sections = pointers.sort().map((pointer) => {
    const keys = pointerKeys(pointer);
    return {
      pointer,
      place: place(pointer),
      lines: [
        ...linesOf(valueAt(written, keys), keys.map(step).join('').replace(/^\./, ''), schemaAt(keys), false),
      ],
    };
  });
  const text = sections.flatMap(({ lines }) => lines.map((line) => `${line}\n`)).join('');
  return { file, sections, text, diff: previous === null ? null : differences(previous, text) };
}

/** What a section says, one line for each value: `mcp.issues.command = "npx"`. */
function* linesOf(
  value: unknown,
  name: string,
  schema: SettingsSchema | null,
  secret: boolean,
): Generator<string> {
  const children = childrenOf(value);
  if (!children) yield `${name} = ${shown(value, secret ? schema : null)}`;
  for (const [key, child] of children ?? []) {
    const below = schema && schemaBelow(schema, key);
    const hides = Boolean(below?.writeOnly) && isSecretName(key, child, schema?.['x-secret-names']);
    yield* linesOf(child, Array.isArray(value) ? `${name}[${key}]` : name + step(key), below, hides);
  }
}

/** `pattern` is there for variables of commands, which may run what they hold, whatever their names say. */
function isSecretName(name: string, value: unknown, pattern: string | undefined): boolean {
  if (pattern === undefined) return true;
  return new RegExp(pattern, 'i').test(name) && /^[\w+=:@.~-]*$/.test(String(value));
}

/** The values within, each of which gets lines of its own; null for what stands on one line. */
function childrenOf(value: unknown): [string, unknown][] | null {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  if (entries.length === 0) return null;
  const flat = Array.isArray(value) && value.every((item) => typeof item !== 'object');
  return flat ? null : entries;
}

function step(key: string): string {
  return /^[A-Za-z_$][\w$-]*$/.test(key) ? `.${key}` : `[${visibleText(key)}]`;
}

/** `secret` is the schema of a value that nobody may read over a shoulder. */
function shown(value: unknown, secret: SettingsSchema | null): string {
  if (typeof value === 'string')
    return secret && !isTemplate(value, secret) ? fingerprint(value) : visibleText(value);
  if (Array.isArray(value)) return `[${value.map((item) => shown(item, secret)).join(', ')}]`;
  return isObject(value) ? '{}' : JSON.stringify(value);
}

/** Enough to see that a secret is another one, and too little to guess it from. */
function fingerprint(secret: string): string {
  return `(hidden, SHA-256 ${createHash('sha256').update(secret).digest('hex').slice(0, 12)}…)`;
}

/** A template is no secret, and it may run a command. A broken one has no value, so it does nothing. */
function isTemplate(value: string, schema: SettingsSchema): boolean {
  if (!schema['x-expand']) return false;
  try {
    return parseTemplate(value).some(({ kind }) => kind !== 'text');
  } catch (error) {
    if (!(error instanceof ExpansionError)) throw error;
    return false;
  }
}

/** To compare two long texts that have nothing in common takes minutes; then each is shown whole. */
const mostChanges = 1000;

const names = ['last trusted', 'now'] as const;

function differences(previous: string, text: string): string {
  if (previous === text) return '';
  const options = { context: 3, maxEditLength: mostChanges, headerOptions: FILE_HEADERS_ONLY };
  const patch = createTwoFilesPatch(...names, previous, text, undefined, undefined, options);
  return patch ?? whole(previous, text);
}

function whole(previous: string, text: string): string {
  const [before, after] = [previous, text].map((one) => one.split('\n').slice(0, -1));
  const lines = [...(before ?? []).map((line) => `-${line}`), ...(after ?? []).map((line) => `+${line}`)];
  const head = `--- ${names[0]}\n+++ ${names[1]}\n@@ -1,${before?.length} +1,${after?.length} @@\n`;
  return head + lines.map((line) => `${line}\n`).join('');
}
