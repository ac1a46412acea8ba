// SPDX-License-Identifier: Apache-2.0
import "./style.css";
import { fleet, serveFleet } from "./fleet.js";
import { serve } from "./serve.js";
import { start } from "./shell.js";

const root = document.getElementById("root");
const found = JSON.parse(document.getElementById("document").textContent);
const pages = { "stallscope.serve/1": serve, "stallscope.serve.fleet/1": serveFleet, "stallscope.fleet/1": fleet };
(pages[found.schema] ?? start)(root, found);
