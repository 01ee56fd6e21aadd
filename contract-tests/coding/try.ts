/** Gives the coding task to a real model: `make try PROVIDER=openai`, with the provider's key in the environment. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServiceClient } from '@service/client';
import type { RuntimeEvent } from '@service/client/api';
import { replyPermission, replyPrompt } from '@service/client/reply';
import { streamQuery } from '@service/client/stream';
import { startServer } from '../start-server.ts';
import { makeRepository, runItsTest, task } from './repository.ts';

const { TRY_PROVIDER: provider = '', TRY_MODEL: model = '' } = process.env;
/** What the variables of the provider begin with, by either of its names. */
const prefix = provider
  .replace(/^vendor-/, '')
  .replaceAll(/\W/g, '_')
  .toUpperCase();
const keys = Object.entries(process.env).filter(([name]) => name.startsWith(`${prefix}_`));

if (provider === '' || keys.length === 0) {
  console.error(
    provider === ''
      ? 'Name the provider, with its key in the environment: OPENAI_API_KEY=… make try PROVIDER=openai [MODEL=…]'
      : `There is no key of ${provider} in the environment; set ${prefix}_API_KEY.`,
  );
  process.exitCode = 2;
} else {
  process.exitCode = (await tryIt()) ? 0 : 1;
}

/** Whether the test of the repository passes in the end. */
async function tryIt(): Promise<boolean> {
  const workspaces = await mkdtemp(join(tmpdir(), 'service-try-'));
  const variables = {
    ...(Object.fromEntries(keys) as Record<string, string>),
    SERVICE_WORKSPACES_DIR: workspaces,
  }; // each has a value
  const server = await startServer({ variables });
  try {
    const client = createServiceClient({ baseUrl: server.url, token: server.operatorKey });
    const { data: session } = await client.POST('/api/v1/sessions', { body: { title: 'Try' } });
    const folder = join(workspaces, session.workspace_id);
    await mkdir(folder);
    await makeRepository(folder);
    const query = { prompt: task, session_id: session.id, ...(model && { model: `${provider}:${model}` }) };
    for await (const { event, data } of streamQuery(client, query)) {
      if (event === 'message' && data.type === 'text_delta') process.stdout.write(data.text);
      else if (event === 'runtime') await heed(data);
      else if (event === 'error') throw new Error(data.error);
      else if (event === 'done')
        console.log(`\n\n${data.model}, ${data.status}: ${JSON.stringify(data.usage)}`);
    }
    const { exitCode, printed } = runItsTest(folder);
    console.log(`The test of the repository ${exitCode === 0 ? 'passes' : 'still fails'}: ${printed}`);
    return exitCode === 0;

    async function heed(happened: RuntimeEvent): Promise<void> {
      if (happened.type === 'tool_started')
        console.log(`\n● ${happened.tool_name} ${JSON.stringify(happened.input)}`);
      if (happened.type === 'permission_requested')
        await replyPermission(client, happened.request, { decision: 'allow_once' });
      if (happened.type === 'prompt_requested')
        await replyPrompt(client, happened.request, {
          answers: happened.request.questions.map(({ id, type, choices = [] }) => ({
            question_id: id,
            ...(type === 'yes_no' && { yes: true }),
            ...(type === 'free_text' && { fill_in_text: 'Yes: digits belong into a slug.' }),
            ...(type.endsWith('choice') && { selected_ids: choices.slice(0, 1).map((choice) => choice.id) }),
          })),
        });
    }
  } finally {
    await server.stop();
    await rm(workspaces, { recursive: true, force: true });
  }
}
