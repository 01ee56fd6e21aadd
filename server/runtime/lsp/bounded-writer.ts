/** Bounds what waits to be sent to a language server: one that reads nothing more would be sent each text all the same. */
import type { Message, MessageWriter } from 'vscode-jsonrpc/node';
import { itemsOf, memberOf, textOf } from './server-requests.ts';

const mostUnsent = 32 * 1024 ** 2;
/** What a message has besides the text of a document. */
const usualLength = 1000;

/** The same writer; `full` is told when more waits than may. */
export function boundedWriter(writer: MessageWriter, full: () => void): MessageWriter {
  let unsent = 0;
  return {
    onError: writer.onError,
    onClose: writer.onClose,
    async write(message) {
      const length = lengthOf(message);
      unsent += length;
      if (unsent > mostUnsent) full();
      try {
        await writer.write(message);
      } finally {
        unsent -= length;
      }
    },
    end: () => writer.end(),
    dispose: () => writer.dispose(),
  };
}

/** In characters, and nearly: to write it out for its length alone would take as long as to send it. */
function lengthOf(message: Message): number {
  const params = memberOf(message, 'params');
  const texts = [params, memberOf(params, 'textDocument'), ...itemsOf(params, 'contentChanges')];
  return texts.reduce<number>((sum, part) => sum + (textOf(part, 'text')?.length ?? 0), usualLength);
}
