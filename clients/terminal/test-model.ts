/** A scripted model for tests of the command: a process that speaks as a provider does. */
import { onTestFinished } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import type { TestHome } from './test-command.ts';

/**
 * A scripted model, `scripted:scripted-1`, that the global settings of this home name; with further settings beside it,
 * and `models` in its place.
 */
export async function withScriptedModel(
  home: TestHome,
  rules: readonly object[],
  settings: object = {},
  models: readonly object[] = [{ id: 'scripted-1' }],
): Promise<Upstream> {
  const upstream = await startUpstream();
  onTestFinished(async () => void (await upstream.stop()));
  await upstream.script([...rules]);
  home.write('.config/service/service.json', {
    providers: {
      scripted: {
        type: 'openai-compat',
        base_url: `${upstream.url}/v1`,
        api_key: 'the-key-of-the-upstream',
        models,
      },
    },
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
    ...settings,
  });
  return upstream;
}
