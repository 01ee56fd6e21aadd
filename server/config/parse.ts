/** Takes the bytes of a settings file to settings, or to all that keeps them from being settings. */

import { parseDuration } from '../clock.ts';
import type { ClientConfig } from '../contract/config.ts';
import type { Diagnostic } from './diagnostic.ts';
import { pointerKeys, pointerPart, readDocument, type SettingsDocument } from './document.ts';
import { nearest } from './nearest.ts';
import { realProviderType } from './provider-type.ts';
import { validate } from './validate.ts';

/** What became of a file: `config` is null exactly where a diagnostic is an error. */
export interface ParsedSettings {
  readonly config: ClientConfig | null;
  readonly diagnostics: readonly Diagnostic[];
}

/** Parses and validates one settings file. Unknown keys are left out of the result, and provider types get their real names. */
export function parseSettings(bytes: Uint8Array, file: string): ParsedSettings {
  const read = readDocument(bytes, file);
  if (!read.document) return { config: null, diagnostics: read.diagnostics };
  const { document } = read;
  const violations = validate(document);
  if (violations.some(isError)) return { config: null, diagnostics: inOrder(violations) };
  for (const { pointer } of violations) remove(document.value, pointerKeys(pointer));
  const config = document.value as ClientConfig; // just validated
  const diagnostics = inOrder([
    ...violations,
    ...durationErrors(config, document),
    ...unreadHooks(config, document),
  ]);
  if (diagnostics.some(isError)) return { config: null, diagnostics };
  return { config: withRealTypes(config), diagnostics };
}

function isError({ severity }: Diagnostic): boolean {
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
  const parent = keys.slice(0, -1).reduce(valueAt, value);
  if (typeof parent === 'object' && parent !== null) Reflect.deleteProperty(parent, keys.at(-1) ?? '');
}

function valueAt(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}

/** The schema cannot say that "0s" is too short, only that it is written like a duration. */
function durationErrors(config: ClientConfig, document: SettingsDocument): Diagnostic[] {
  const pointer = '/tools/grep/timeout';
  const written = config.tools?.grep?.timeout;
  if (written === undefined) return [];
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

/** Whoever writes a guard must learn that it does not stand. */
function unreadHooks(config: ClientConfig, document: SettingsDocument): Diagnostic[] {
  const unread = Object.keys(config.hooks ?? {}).filter((event) => event !== 'pre_tool_use');
  return unread.map((event) => {
    const pointer = `/hooks/${pointerPart(event)}`;
    return {
      severity: 'warning',
      place: document.place(document.node(pointer)?.parent?.offset ?? 0),
      pointer,
      message: `Hooks of the event ${JSON.stringify(event)} never run`,
      expected: null,
      remedy: nearest(event, ['pre_tool_use'])
        ? 'Did you mean "pre_tool_use"?'
        : 'The one event that is read is "pre_tool_use".',
    };
  });
}

function withRealTypes(config: ClientConfig): ClientConfig {
  if (!config.providers) return config;
  const providers = Object.entries(config.providers).map(([id, provider]) => [
    id,
    provider.type ? { ...provider, type: realProviderType(provider.type) } : provider,
  ]);
  return { ...config, providers: Object.fromEntries(providers) };
}
