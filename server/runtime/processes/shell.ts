/** The shell that the `bash` tool gives its commands to. */
import { existsSync } from 'node:fs';

/** Where it is. */
export const shellPath = existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh';

/** Whether it reads commands as bash does; another shell would take the same letters for other commands. */
export const shellIsBash = shellPath === '/bin/bash';
