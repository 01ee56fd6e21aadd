/** Starts the Prism mock of the contract, which answers from the examples and refuses what the contract refuses. */
import { fileURLToPath } from 'node:url';
import { startProgram } from './child-program.ts';

export interface Mock {
  readonly url: string;
  stop(): Promise<void>;
}

const document = fileURLToPath(new URL('../server/contract/openapi.mock.json', import.meta.url));

export async function startMock(): Promise<Mock> {
  const prism = fileURLToPath(import.meta.resolve('@stoplight/prism-cli/dist/index.js'));
  const program = await startProgram([process.execPath, prism, 'mock', '--errors', '--port', '0', document], {
    ready: /Prism is listening on (?<url>http:\S+)/,
  });
  return {
    url: program.ready.groups?.url ?? '',
    async stop() {
      await program.stop();
    },
  };
}
