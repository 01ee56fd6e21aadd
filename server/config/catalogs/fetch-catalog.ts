/** Fetches a catalogue of models from its URL: bounded, through the guard, and held against its schema. */
import type { CatalogModel } from '../../contract/api.ts';
import { validate } from '../../contract/catalog-validator.js';
import { type OutboundFetch, outboundSentence } from '../../outbound/outbound.ts';
import { CatalogError } from './catalog.ts';

/** What a URL has given, and the version by which it is asked whether there is another. */
export interface FetchedCatalog {
  readonly models: readonly CatalogModel[];
  readonly version: string | null;
}

/** Null where the URL still has the version that is known already. Throws CatalogError. */
export async function fetchCatalog(
  url: string,
  fetch: OutboundFetch,
  known: { readonly version?: string | null; readonly signal?: AbortSignal } = {},
): Promise<FetchedCatalog | null> {
  const { version, signal } = known;
  try {
    const headers = { accept: 'application/json', ...(version && { 'if-none-match': version }) };
    const response = await fetch(url, { headers, ...(signal && { signal }) });
    if (response.status === 304 && version) return null;
    refuseOther(response);
    return { models: modelsIn(await response.text()), version: response.headers.get('etag') };
  } catch (error) {
    if (error instanceof CatalogError) throw error;
    throw new CatalogError(outboundSentence(error), { cause: error });
  }
}

/** Repositories of code show their files as plain text. */
const types = /^(application\/([\w.-]+\+)?json|text\/plain)\s*(;|$)/i;

function refuseOther({ status, headers }: Response): void {
  if (status !== 200) throw new CatalogError(`The server answered with the status ${status}.`);
  if (!types.test(headers.get('content-type') ?? ''))
    throw new CatalogError('The server answered with something else than JSON.');
}

function modelsIn(text: string): readonly CatalogModel[] {
  const document = jsonOf(text);
  if (validate(document)) return (document as { models: CatalogModel[] }).models; // the validator says so
  const [{ instancePath = '', message = 'is wrong' } = {}] = validate.errors ?? [];
  throw new CatalogError(`The answer is no catalogue of models: ${instancePath || 'it'} ${message}.`);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CatalogError('The answer is not valid JSON.', { cause });
  }
}
