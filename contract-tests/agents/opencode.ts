/** opencode's `run`: one task, without questions; it speaks through the AI SDK. */
import { type Agent, installed } from './agent.ts';

export const opencode: Agent = {
  name: 'opencode',
  read: { name: 'read', arguments: { filePath: '{{match.file}}' } },
  edit: {
    name: 'edit',
    arguments: { filePath: '{{match.file}}', oldString: 'return a - b', newString: 'return a + b' },
  },
  command: ({ model, prompt }) => [
    installed('opencode-*/bin/opencode'),
    ...['run', '--model', `service/${model}`, prompt],
  ],
  environment: () => ({
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    // It would fetch the types of its plugins from the registry, and works without.
    npm_config_offline: 'true',
  }),
  settings: ({ url, key, model }) => ({
    name: 'opencode.json',
    content: {
      provider: {
        service: {
          npm: '@ai-sdk/anthropic',
          options: { baseURL: `${url}/v1`, apiKey: key },
          models: { [model]: { limit: { context: 100_000, output: 8000 } } },
        },
      },
    },
  }),
};
