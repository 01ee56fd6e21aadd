/** Claude Code in print mode: one task, without questions. */
import { type Agent, installed } from './agent.ts';

export const claudeCode: Agent = {
  name: 'claude-code',
  read: { name: 'Read', arguments: { file_path: '{{match.file}}' } },
  edit: {
    name: 'Edit',
    arguments: { file_path: '{{match.file}}', old_string: 'return a - b', new_string: 'return a + b' },
  },
  command: ({ model, prompt }) => [
    installed('@anthropic-ai/claude-code-*/claude*'),
    ...['--print', prompt, '--model', model, '--permission-mode', 'acceptEdits'],
  ],
  environment: ({ url, key }) => ({
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: key,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  }),
};
