/** Writes what is said to a language server and back to the log, while `options.debug_lsp` asks for it. */
import type { Message, MessageWriter } from 'vscode-jsonrpc/node';
import type { Log } from '../../log.ts';
import { memberOf } from './server-requests.ts';

/** Takes each message as it passes. */
export interface Trace {
  sent(message: Message): void;
  received(message: Message): void;
}

const longestShown = 2000;
/** What holds settings, and with them what may be secret. */
const closed = new Set(['initialize', 'workspace/didChangeConfiguration', 'workspace/configuration']);

/** Asked at each message whether it is to be written: settings change while a server runs. */
export function createTrace(server: string, wanted: () => boolean, log: Log): Trace {
  // Asked for by its own setting, so that the level of the rest does not matter.
  const traced = log.child({ lsp: server }, log.level === 'silent' ? {} : { level: 'debug' });
  /** Requests for settings that await their answer. */
  const pending = new Set<unknown>();
  const write = (direction: string, message: Message) => {
    const method = memberOf(message, 'method');
    const id = memberOf(message, 'id');
    const hidden =
      closed.has(String(method)) || (direction === 'sent' && method === undefined && pending.delete(id));
    if (method === 'workspace/configuration') pending.add(id);
    if (!wanted()) return;
    const content = memberOf(message, 'params') ?? memberOf(message, 'result') ?? memberOf(message, 'error');
    const shown = hidden ? '(settings)' : (JSON.stringify(content) ?? '').slice(0, longestShown);
    traced.debug({ direction, method, id, content: shown }, 'language server protocol');
  };
  return { sent: (message) => write('sent', message), received: (message) => write('received', message) };
}

/** The same writer, each message of which is traced. */
export function tracedWriter(writer: MessageWriter, trace: Trace): MessageWriter {
  return {
    onError: writer.onError,
    onClose: writer.onClose,
    write(message) {
      trace.sent(message);
      return writer.write(message);
    },
    end: () => writer.end(),
    dispose: () => writer.dispose(),
  };
}
