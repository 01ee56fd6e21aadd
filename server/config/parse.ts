/** Takes the bytes of a settings file to settings, or to all that keeps them from being settings. */

import { parseDuration } from '../clock.ts';
import type { ClientConfig } from '../contract/config.ts';
import type { Diagnostic } from './diagnostic.ts';
import { maximumDiagnostics, readDocument, type SettingsDocument } from './document.ts';
import { nearest } from './nearest.ts';
import { pointerKeys, pointerTo, valueAt } from './pointer.ts';
import { markedValues, settingsSchema } from './schema-marks.ts';
import { toolNameWarnings } from './tool-name-warnings.ts';
import { validate } from './validate.ts';

/** What became of a file: `written` is null exactly where a diagnostic is an error. */
export interface ParsedSettings {
  /** What the file says, under the names that stand there, without the keys that are not known. */
  readonly written: ClientConfig | null;
  readonly document: SettingsDocument | null;
  readonly diagnostics: readonly Diagnostic[];
}

/** Parses and validates one settings file. Unknown keys are left out of the result. */
export async function parseSettings(bytes: Uint8Array, file: string): Promise<ParsedSettings> {
  const { document, diagnostics } = readDocument(bytes, file);
  if (!document) return { written: null, document, diagnostics };
  const { diagnostics: violations, unknown } = validate(document);
  for (const pointer of unknown) remove(document.value, pointerKeys(pointer));
  const beyond = [
    ...durationErrors(document),
    ...(await patternErrors(document)),
    ...unreadHooks(document),
    ...toolNameWarnings(document),
  ].filter(({ pointer }) => !violations.some((violation) => violation.pointer === pointer));
  const found = inOrder([...violations, ...beyond]);
  // Valid, where nothing was found.
  const written = found.some(isError) ? null : (document.value as ClientConfig);
  return { written, document, diagnostics: found };
}

export function isError({ severity }: Diagnostic): boolean {
  return severity === 'error';
}

/** As they stand in the file, from the top. */
function inOrder(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return diagnostics.toSorted(
    ({ place: one }, { place: other }) =>
      (one?.line ?? 0) - (other?.line ?? 0) || (one?.column ?? 0) - (other?.column ?? 0),
  );
}

function remove(value: unknown, keys: readonly string[]): void {
  const parent = valueAt(value, keys.slice(0, -1));
  if (typeof parent === 'object' && parent !== null) Reflect.deleteProperty(parent, keys.at(-1) ?? '');
}

// What follows looks at files that the schema may refuse: everything that is wrong is told at once.

/** The schema cannot say that "0s" is too short, only that it is written like a duration. */
function durationErrors(document: SettingsDocument): Diagnostic[] {
  const pointer = '/tools/grep/timeout';
  const written = valueAt(document.value, pointerKeys(pointer));
  if (typeof written !== 'string') return [];
  try {
    parseDuration(written);
    return [];
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const place = document.place(document.node(pointer)?.offset ?? 0);
    const remedy = 'Write at least "1ms", for example "5s".';
    const message = 'This is less than a millisecond';
    return [{ severity: 'error', place, pointer, message, expected: 'a duration', remedy }];
  }
}

/** Names, alternatives of them and what may stand between: whoever reads RE2 reads these. Most matchers are such. */
const plainPattern = /^(?=.{0,200}$)\^?((\w|\.\*?)*(\|(\w|\.\*?)+)*|\((\w|\.\*?)+(\|(\w|\.\*?)+)*\))\$?$/;

/** A guard whose pattern cannot be read would guard nothing, and nobody would learn of it before it is needed. */
async function patternErrors(document: SettingsDocument): Promise<Diagnostic[]> {
  const patterns = [...markedValues(document.value)].filter(
    ({ schema, value }) => schema['x-regexp'] && typeof value === 'string' && !plainPattern.test(value),
  );
  if (patterns.length === 0) return [];
  // Only here, since loading the engine takes longer than reading the settings.
  const { RE2JS, RE2JSException, RE2JSSyntaxException } = await import('re2js');
  return patterns.flatMap(({ keys, value }) => {
    try {
      RE2JS.compile(String(value));
      return [];
    } catch (error) {
      if (!(error instanceof RE2JSException)) throw error;
      const pointer = pointerTo(keys);
      const place = document.place(document.node(pointer)?.offset ?? 0);
      // The message of a syntax error repeats the pattern; what stands in a file is not repeated.
      const why = error instanceof RE2JSSyntaxException ? error.getDescription() : error.message;
      return [brokenPattern(pointer, place, why)];
    }
  });
}

function brokenPattern(pointer: string, place: Diagnostic['place'], why: string): Diagnostic {
  return {
    severity: 'error',
    place,
    pointer,
    message: `This is no regular expression: ${why}`,
    expected: 'the syntax of RE2, which has no look-around and no back-references',
    remedy: 'Write, for example, "^(bash|write)$".',
  };
}

/** Whoever writes a guard must learn that it does not stand. */
function unreadHooks(document: SettingsDocument): Diagnostic[] {
  const written = valueAt(document.value, ['hooks']);
  if (typeof written !== 'object' || written === null || Array.isArray(written)) return [];
  const read = Object.keys(settingsSchema.properties?.hooks?.properties ?? {});
  const unread = Object.keys(written).filter((event) => !read.includes(event));
  const names = read.map((event) => JSON.stringify(event)).join(', ');
  return unread.slice(0, maximumDiagnostics).map((event) => {
    const pointer = pointerTo(['hooks', event]);
    const meant = nearest(event, read);
    return {
      severity: 'warning',
      place: document.place(document.node(pointer)?.parent?.offset ?? 0),
      pointer,
      message: `Hooks of the event ${JSON.stringify(event)} never run`,
      expected: null,
      remedy: meant ? `Did you mean ${JSON.stringify(meant)}?` : `The one event that is read is ${names}.`,
    };
  });
}
