/** Finds the model servers that people run on their own machine: Ollama and LM Studio, on their usual ports. */
import type { ProviderCandidate } from './providers.ts';

/** Where the servers are asked; only tests have them elsewhere. */
export interface LocalAddresses {
  readonly ollama: string;
  readonly lmstudio: string;
}

const usualAddresses: LocalAddresses = {
  ollama: 'http://127.0.0.1:11434',
  lmstudio: 'http://127.0.0.1:1234',
};

/** Asks both servers at once. Whichever is not there, slow, or without models is left out. */
export async function discoverLocalProviders(
  fetchImplementation: typeof globalThis.fetch,
  timeoutMs: number,
  addresses: LocalAddresses = usualAddresses,
): Promise<ProviderCandidate[]> {
  const ask = (url: string) => answerOf(fetchImplementation, url, timeoutMs);
  const [tags, models] = await Promise.all([
    ask(`${addresses.ollama}/api/tags`),
    ask(`${addresses.lmstudio}/v1/models`),
  ]);
  return [
    candidate('ollama', 'Ollama', addresses.ollama, ollamaModels(tags)),
    candidate('lmstudio', 'LM Studio', addresses.lmstudio, lmStudioModels(models)),
  ].filter((found) => found.models.length > 0);
}

async function answerOf(
  fetchImplementation: typeof globalThis.fetch,
  url: string,
  timeoutMs: number,
): Promise<unknown> {
  try {
    // A redirect could lead off this machine.
    const response = await fetchImplementation(url, {
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
    });
    return response.ok ? await response.json() : null;
  } catch {
    // No server, a slow one, or one that speaks no JSON: on most machines nothing listens there.
    return null;
  }
}

function candidate(id: string, name: string, address: string, models: readonly string[]): ProviderCandidate {
  return {
    id,
    name,
    type: 'openai-compat',
    connect: async () => ({ baseUrl: `${address}/v1` }),
    models: models.map((model) => ({ id: model, name: model })),
    onlyListed: true,
    flatRate: true,
    origin: 'discovered',
  };
}

/** Ollama names the family of each model; those that only embed text are of the BERT families. */
function ollamaModels(answer: unknown): string[] {
  return listed(answer, 'models')
    .filter((model) => !String(property(property(model, 'details'), 'family')).includes('bert'))
    .flatMap((model) => textOf(property(model, 'name')));
}

/** LM Studio prefixes the models that only embed text. */
function lmStudioModels(answer: unknown): string[] {
  return listed(answer, 'data')
    .flatMap((model) => textOf(property(model, 'id')))
    .filter((id) => !id.startsWith('text-embedding-'));
}

function listed(answer: unknown, key: string): readonly unknown[] {
  const found = property(answer, key);
  return Array.isArray(found) ? found : [];
}

function property(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}

function textOf(value: unknown): string[] {
  return typeof value === 'string' && value !== '' ? [value] : [];
}
