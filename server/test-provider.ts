/** A provider for the settings of tests, which the upstream plays. */
import type { Upstream } from '../contract-tests/upstream/start-upstream.ts';

export function scriptedProvider({ url }: Upstream, ...models: readonly string[]) {
  return {
    type: 'openai-compat' as const,
    base_url: `${url}/v1`,
    api_key: 'k',
    models: models.map((id) => ({ id })),
  };
}
