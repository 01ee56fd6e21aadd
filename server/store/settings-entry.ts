/** Reads what is stored of a provider or an MCP server as if anything could stand there: a newer version may have written it. */
import type { ErrorObject } from 'ajv';
import type { McpServer, Provider } from '../contract/config.ts';
import { validate } from '../contract/settings-validator.js';

export interface ReadEntry<Entry> {
  readonly entry: Entry;
  /** The members that this version cannot read, which are left out of it; `''` where none can be read. */
  readonly strange: readonly string[];
}

/** Members that are not known are left out, as they are of a settings file. */
export const readProviderEntry = (text: string) => readEntry<Provider>('providers', text);
export const readMcpEntry = (text: string) => readEntry<McpServer>('mcp', text);

function readEntry<Entry extends Provider | McpServer>(
  section: 'providers' | 'mcp',
  text: string,
): ReadEntry<Entry> {
  const stored: unknown = JSON.parse(text);
  if (validate({ [section]: { any: stored } })) return { entry: stored as Entry, strange: [] }; // the schema says so
  const ownPath = `/${section}/any`;
  const breaches = validate.errors ?? [];
  const strange = new Set(breaches.flatMap((breach) => strangeIn(ownPath, breach)));
  // Every member of an entry may be absent.
  if (strange.has('')) return { entry: {} as Entry, strange: [''] };
  const left = new Set([...strange, ...breaches.flatMap((breach) => unknownIn(ownPath, breach))]);
  const kept = Object.entries(stored as object).filter(([name]) => !left.has(name));
  return { entry: Object.fromEntries(kept) as Entry, strange: [...strange] };
}

function strangeIn(ownPath: string, { instancePath, keyword }: ErrorObject): string[] {
  if (instancePath === ownPath && keyword === 'additionalProperties') return [];
  return [instancePath.slice(ownPath.length).split('/')[1] ?? ''];
}

function unknownIn(ownPath: string, { instancePath, keyword, params }: ErrorObject): string[] {
  return instancePath === ownPath && keyword === 'additionalProperties' ? [params.additionalProperty] : [];
}
