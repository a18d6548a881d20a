/** The server of `holdfast ui`. */

export { startUi, type Ui } from "./server.ts";
